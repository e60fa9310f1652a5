// The snippet of the page goes here.

import { genkit } from "genkit";

const { openAI } = await import("@genkit-ai/compat-oai/openai");
const provider = process.env.MODEL_PROVIDER;
const prompt = "Which of the two is cheaper? CANARY-7Q-PROMPT";
const ai = genkit({ plugins: [openAI({ apiKey: "sk-CANARY-7Q-KEY", baseURL: `${provider}/s/shop/v1` })] });

await ai.generate({ model: openAI.model("gpt-4o"), prompt });
const { stream, response } = ai.generateStream({ model: openAI.model("gpt-4o-mini"), prompt });
for await (const _ of stream);
await response;
const answers = ai.defineFlow("answers", async (question) => {
  const { text } = await ai.generate({ model: openAI.model("gpt-4o"), prompt: question });
  return text;
});
await answers(prompt);
await flushTracing();
