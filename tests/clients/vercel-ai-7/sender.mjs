import { NodeSDK } from "@opentelemetry/sdk-node";
import { registerTelemetry } from "ai";
import { OpenTelemetry } from "@ai-sdk/otel";

const sdk = new NodeSDK();
sdk.start();
registerTelemetry(new OpenTelemetry());

const { makeCalls } = await import("./vercel_ai_calls.mjs");

await makeCalls();
await sdk.shutdown();
