import { NodeSDK } from "@opentelemetry/sdk-node";

const sdk = new NodeSDK();
sdk.start();

const ai = await import("ai");
const { createOpenAI } = await import("@ai-sdk/openai");
const { createAnthropic } = await import("@ai-sdk/anthropic");
const { makeCalls } = await import("./vercel_ai_calls.mjs");

await makeCalls(ai, createOpenAI, createAnthropic, {
  experimental_telemetry: { isEnabled: true, metadata: { userId: "user-7" } },
});
await sdk.shutdown();
