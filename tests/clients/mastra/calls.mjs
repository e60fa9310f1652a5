import { Mastra } from "@mastra/core/mastra";
import { Agent } from "@mastra/core/agent";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";

const provider = process.env.MODEL_PROVIDER;
const prompt = "Which of the two is cheaper? CANARY-7Q-PROMPT";
const apiKey = "sk-CANARY-7Q-KEY";
const openai = createOpenAI({ baseURL: `${provider}/s/shop/v1`, apiKey });
const anthropic = createAnthropic({ baseURL: `${provider}/s/desk/v1`, apiKey });
const agent = (name, model) => new Agent({ id: name, name, instructions: "Answer. CANARY-7Q-PROMPT", model });
const agents = {
  chat: agent("chat", openai.chat("gpt-4o")),
  responses: agent("responses", openai.responses("gpt-4.1-mini")),
  claude: agent("claude", anthropic("claude-sonnet-4-5")),
};

// The snippet of the page goes here.

for (const name of Object.keys(agents)) {
  const running = mastra.getAgent(name);
  await running.generate(prompt);
  const stream = await running.stream(prompt);
  for await (const _ of stream.textStream);
}
await mastra.shutdown();
