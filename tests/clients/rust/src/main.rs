//! Sends calls of a model with the Rust SDK, half of them, and the rest when a line comes in.

use std::io::stdin;

use opentelemetry::trace::{Span, SpanKind, Tracer, TracerProvider};
use opentelemetry::KeyValue;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::SdkTracerProvider;

fn exporter() -> SpanExporter {
    let builder = SpanExporter::builder();
    match std::env::var("OTEL_EXPORTER_OTLP_PROTOCOL").as_deref() {
        Ok("grpc") => builder.with_tonic().build(),
        _ => builder.with_http().build(),
    }
    .expect("an exporter")
}

fn send(provider: &SdkTracerProvider, first: i64, last: i64) {
    let tracer = provider.tracer("sender");
    for n in first..=last {
        tracer
            .span_builder("chat gpt-4o")
            .with_kind(SpanKind::Client)
            .with_attributes([
                KeyValue::new("gen_ai.operation.name", "chat"),
                KeyValue::new("gen_ai.provider.name", "openai"),
                KeyValue::new("gen_ai.request.model", "gpt-4o"),
                KeyValue::new("gen_ai.usage.input_tokens", 1000 + n),
                KeyValue::new("gen_ai.usage.output_tokens", 100 + n),
            ])
            .start(&tracer)
            .end();
    }
    if let Err(error) = provider.force_flush() {
        eprintln!("{error}");
    }
}

fn main() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let calls: i64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("calls");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let grpc = runtime.enter();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter()).build();
    send(&provider, 1, calls / 2);
    println!("half");
    stdin().read_line(&mut String::new()).expect("a line");
    send(&provider, calls / 2 + 1, calls);
    if let Err(error) = provider.shutdown() {
        eprintln!("{error}");
    }
    drop(grpc);
    println!("done");
}
