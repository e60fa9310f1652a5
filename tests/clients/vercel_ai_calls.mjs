// What the applications under each major version of the Vercel AI SDK ask of the provider: answers
// and streams of two providers, a tool, embeddings, a failure.
export const PROMPT = "Which of the two is cheaper? CANARY-7Q-PROMPT";
export const apiKey = "sk-CANARY-7Q-KEY";
export const provider = process.env.MODEL_PROVIDER;

// Imports the SDK only now: telemetry must have started before.
export async function makeCalls(options = {}) {
  const { embed, generateText, streamText } = await import("ai");
  const { createOpenAI } = await import("@ai-sdk/openai");
  const { createAnthropic } = await import("@ai-sdk/anthropic");
  const openai = createOpenAI({ baseURL: `${provider}/s/shop/v1`, apiKey, compatibility: "strict" });
  const failing = createOpenAI({ baseURL: `${provider}/s/error500/v1`, apiKey });
  const anthropic = createAnthropic({ baseURL: `${provider}/s/desk/v1`, apiKey });
  const asked = { prompt: PROMPT, maxRetries: 0, ...options };
  for (const model of [openai.chat("gpt-4o"), openai.responses("gpt-4.1-mini"), anthropic("claude-sonnet-4-5")]) {
    await generateText({ ...asked, model });
    await streamText({ ...asked, model }).consumeStream();
  }
  await embed({ model: openai.embedding("text-embedding-3-small"), value: PROMPT, ...options });
  await generateText({ ...asked, model: failing.chat("gpt-4o") }).catch(() => {});
}
