import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;

/** Sends calls of a model with the Java SDK, half of them, and the rest when a line comes in. */
public class Sender {
  public static void main(String[] arguments) throws IOException {
    int calls = Integer.parseInt(arguments[0]);
    SdkTracerProvider provider =
        AutoConfiguredOpenTelemetrySdk.builder()
            .disableShutdownHook()
            .build()
            .getOpenTelemetrySdk()
            .getSdkTracerProvider();
    send(provider, 1, calls / 2);
    System.out.println("half");
    new BufferedReader(new InputStreamReader(System.in)).readLine();
    send(provider, calls / 2 + 1, calls);
    provider.shutdown().join(60, TimeUnit.SECONDS);
    System.out.println("done");
    System.exit(0);
  }

  private static void send(SdkTracerProvider provider, int first, int last) {
    Tracer tracer = provider.get("sender");
    for (int n = first; n <= last; n++) {
      tracer
          .spanBuilder("chat gpt-4o")
          .setSpanKind(SpanKind.CLIENT)
          .setAttribute("gen_ai.operation.name", "chat")
          .setAttribute("gen_ai.provider.name", "openai")
          .setAttribute("gen_ai.request.model", "gpt-4o")
          .setAttribute("gen_ai.usage.input_tokens", 1000 + n)
          .setAttribute("gen_ai.usage.output_tokens", 100 + n)
          .startSpan()
          .end();
    }
    provider.forceFlush().join(60, TimeUnit.SECONDS);
  }
}
