// The snippet of the page goes here.

const { makeCalls } = await import("./vercel_ai_calls.mjs");

await makeCalls();
await sdk.shutdown();
