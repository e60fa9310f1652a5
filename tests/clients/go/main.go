// Sends calls of a model with the Go SDK, half of them, and the rest when a line comes in.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

func exporter(ctx context.Context) (*otlptrace.Exporter, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL") == "grpc" {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

func main() {
	ctx := context.Background()
	calls, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	made, err := exporter(ctx)
	if err != nil {
		log.Fatal(err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(made))
	tracer := provider.Tracer("sender")
	send := func(first, last int) {
		for n := first; n <= last; n++ {
			_, span := tracer.Start(ctx, "chat gpt-4o", api.WithSpanKind(api.SpanKindClient))
			span.SetAttributes(
				attribute.String("gen_ai.operation.name", "chat"),
				attribute.String("gen_ai.provider.name", "openai"),
				attribute.String("gen_ai.request.model", "gpt-4o"),
				attribute.Int("gen_ai.usage.input_tokens", 1000+n),
				attribute.Int("gen_ai.usage.output_tokens", 100+n),
			)
			span.End()
		}
		if err := provider.ForceFlush(ctx); err != nil {
			log.Print(err)
		}
	}
	send(1, calls/2)
	fmt.Println("half")
	bufio.NewReader(os.Stdin).ReadString('\n')
	send(calls/2+1, calls)
	if err := provider.Shutdown(ctx); err != nil {
		log.Print(err)
	}
	fmt.Println("done")
}
