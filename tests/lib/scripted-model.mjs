// SPDX-License-Identifier: Apache-2.0
// A scripted model: a server of the kind openai-chat whose answers are written
// down here and understand nothing. It stands for a real model where a test, a
// transcript or a picture needs answers in words; the service and the code that
// it runs are real.
//
//   const upstream = await ScriptedModel.start((turn) => ({ code }) or ({ text }));
//   turn: { question, round, output }: the last question, how many runs of code
//   followed it, what the last of them printed.
import { createServer } from 'node:http';

const textOf = (content) => (Array.isArray(content) ? content.map((p) => p.text ?? '').join('') : content ?? '');
const nap = (ms) => new Promise((done) => setTimeout(done, ms));

export class ScriptedModel {
  static async start(script, { pause = 0 } = {}) {
    const model = new ScriptedModel();
    model.script = script;
    model.pause = pause; // ms between two pieces of text
    model.requests = [];
    model.server = createServer((req, res) => model.serve(req, res).catch((e) => { res.statusCode = 500; res.end(JSON.stringify({ error: { message: String(e) } })); }));
    await new Promise((done) => model.server.listen(0, '127.0.0.1', done));
    model.url = `http://127.0.0.1:${model.server.address().port}/v1`;
    return model;
  }

  close() { this.server.closeAllConnections(); this.server.close(); }

  async serve(req, res) {
    let raw = '';
    for await (const chunk of req) raw += chunk;
    if (!req.url.endsWith('/chat/completions')) return void res.writeHead(404).end('{"error":{"message":"not here"}}');
    const body = JSON.parse(raw);
    this.requests.push(body);
    const from = body.messages.findLastIndex((m) => m.role === 'user' && textOf(m.content).trim());
    const after = body.messages.slice(from + 1);
    const outputs = after.filter((m) => m.role === 'tool');
    const answer = this.script({ question: textOf(body.messages[from].content), round: outputs.length, output: textOf(outputs.at(-1)?.content), body });
    const tool = body.tools?.find((t) => t.function.parameters?.properties?.code)?.function.name;
    const choice = (delta, finish = null) => ({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: body.model, choices: [{ index: 0, delta, finish_reason: finish }] });
    const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 };
    const useTool = answer.code !== undefined && tool;
    const call = { index: 0, id: `call_${this.requests.length}`, type: 'function', function: { name: tool, arguments: JSON.stringify({ code: answer.code }) } };
    if (!body.stream) {
      const message = useTool ? { role: 'assistant', content: answer.text ?? null, tool_calls: [call] } : { role: 'assistant', content: answer.text ?? '' };
      res.writeHead(200, { 'content-type': 'application/json' });
      return void res.end(JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: body.model, choices: [{ index: 0, message, finish_reason: useTool ? 'tool_calls' : 'stop' }], usage }));
    }
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (chunk) => res.write(`data: ${JSON.stringify(chunk)}\n\n`);
    send(choice({ role: 'assistant', content: '' }));
    for (const piece of (answer.text ?? '').match(/\S+\s*/g) ?? []) {
      send(choice({ content: piece }));
      if (this.pause) await nap(this.pause);
    }
    if (useTool) send(choice({ tool_calls: [call] }));
    send(choice({}, useTool ? 'tool_calls' : 'stop'));
    send({ ...choice({}), choices: [], usage });
    res.end('data: [DONE]\n\n');
  }
}

// ---- the conversation of docs/CHAT.md -------------------------------------------

export const sales = `month,region,revenue\n${['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun'].flatMap((m, i) => [['North', 120 + i * 14], ['South', 96 + i * 5], ['West', 80 + ((i * 37) % 40)]].map(([r, v]) => `${m},${r},${v}`)).join('\n')}\n`;

const growth = (path) => `import pandas as pd
import matplotlib.pyplot as plt

df = pd.read_csv("${path}")
by = df.pivot(index="month", columns="region", values="revenue").loc[["Jan", "Feb", "Mar", "Apr", "May", "Jun"]]
change = (by.iloc[-1] / by.iloc[0] - 1) * 100
for region, percent in change.sort_values(ascending=False).items():
    print(f"{region} {by[region].iloc[0]} {by[region].iloc[-1]} {percent:.1f}")
ax = by.plot(figsize=(8, 3.2), marker="o", color=["#3a4aa8", "#c2571a", "#2a7f62"])
ax.spines[["top", "right"]].set_visible(False)
ax.set_ylabel("revenue")
plt.tight_layout()
plt.savefig("/mnt/data/growth.png", dpi=110)
plt.show()`;

const report = `total = by.sum().rename("total")
table = pd.DataFrame({"total": total, "change_percent": change.round(1)})
table.to_csv("/mnt/data/summary.csv")
print(table.to_string())`;

// Answers from the output of the code that really ran.
export function analyst({ question, round, output }) {
  if (/region|grew/i.test(question)) {
    if (round === 0) return { text: 'I will compare January with June for each region.', code: growth(/\/mnt\/data\/[^\s\]]+?\.csv/.exec(question)?.[0] ?? '/mnt/data/sales.csv') };
    const rows = [...output.matchAll(/^(\w+) (\d+) (\d+) (-?[\d.]+)$/gm)].map((m) => m.slice(1));
    const [best, , , percent] = rows[0] ?? ['No region', 0, 0, '0'];
    return { text: `**${best}** grew most: **${percent} %** from January to June.\n\n| Region | January | June | Change |\n|---|---:|---:|---:|\n${rows.map(([r, a, b, p]) => `| ${r} | ${a} | ${b} | ${p} % |`).join('\n')}\n\nThe chart is [growth.png](sandbox:/mnt/data/growth.png).` };
  }
  if (/csv|table|file/i.test(question)) {
    if (round === 0) return { code: report };
    return { text: 'Here is [summary.csv](sandbox:/mnt/data/summary.csv), with the total and the change of each region.' };
  }
  return { text: 'This model is scripted. It knows the questions of docs/CHAT.md alone.' };
}
