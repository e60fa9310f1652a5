// Sends calls of a model with the JavaScript SDK, half of them, and the rest when a line comes in.
import { once } from "node:events";
import { createInterface } from "node:readline";
import { DiagConsoleLogger, DiagLogLevel, SpanKind, diag } from "@opentelemetry/api";
import { OTLPTraceExporter as Grpc } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as Json } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as Protobuf } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";

diag.setLogger(new DiagConsoleLogger(), DiagLogLevel.ERROR);
const exporters = { grpc: Grpc, "http/json": Json, "http/protobuf": Protobuf };
const calls = Number(process.argv[2]);
const exporter = new exporters[process.env.OTEL_EXPORTER_OTLP_PROTOCOL]();
const provider = new TracerProvider({ spanProcessors: [new BatchSpanProcessor({ exporter, maxExportBatchSize: 50 })] });
const tracer = provider.getTracer("sender");

async function send(first, last) {
  for (let n = first; n <= last; n++) {
    tracer
      .startSpan("chat gpt-4o", {
        kind: SpanKind.CLIENT,
        attributes: {
          "gen_ai.operation.name": "chat",
          "gen_ai.provider.name": "openai",
          "gen_ai.request.model": "gpt-4o",
          "gen_ai.usage.input_tokens": 1000 + n,
          "gen_ai.usage.output_tokens": 100 + n,
        },
      })
      .end();
  }
  await provider.forceFlush().catch((error) => console.error(error));
}

await send(1, Math.floor(calls / 2));
console.log("half");
const lines = createInterface({ input: process.stdin });
await once(lines, "line");
lines.close();
await send(Math.floor(calls / 2) + 1, calls);
await provider.shutdown().catch((error) => console.error(error));
console.log("done");
