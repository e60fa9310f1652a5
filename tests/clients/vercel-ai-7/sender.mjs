import { NodeSDK } from "@opentelemetry/sdk-node";
import { registerTelemetry } from "ai";
import { OpenTelemetry } from "@ai-sdk/otel";

const sdk = new NodeSDK();
sdk.start();
registerTelemetry(new OpenTelemetry());

const ai = await import("ai");
const { createOpenAI } = await import("@ai-sdk/openai");
const { createAnthropic } = await import("@ai-sdk/anthropic");
const { makeCalls } = await import("./vercel_ai_calls.mjs");

await makeCalls(ai, createOpenAI, createAnthropic);
await sdk.shutdown();
