// The snippet of the page goes here.

const { makeCalls } = await import("./vercel_ai_calls.mjs");

await makeCalls({
  experimental_telemetry: { isEnabled: true, metadata: { userId: "user-7" } },
});
await sdk.shutdown();
