// One long-lived process that does the benchmark's work on the original packages.
//
// Reads one JSON command a line on stdin and answers with one JSON object a line on stdout:
//   {"do": "build", "work": {...}}   build the work of a row             -> {"ok": true}
//   {"do": "result"}                 do it once and say what came out    -> {"result": ...}
//   {"do": "warm", "ms": 200}        repeat it at least that long        -> {"ns": n, "count": n}
//   {"do": "round", "count": n}      collect garbage, then time n of it  -> {"ns": n}
//   {"do": "close"}                  drop the work of this row           -> {"ok": true}
import { createInterface } from "node:readline";
import { Context } from "@deepseek-ai/cordis";
import { createScope, scopeTarget } from "@deepseek-ai/dsh-scope";
import SystemPrompt, { renderContextSnapshot, renderPrompt } from "@deepseek-ai/dsh-system-prompt";

const TICK = "bench/tick";
const FLOW = "bench/flow";
const ANYONE = {};

const now = () => process.hrtime.bigint();

/** A tree with the prompt service and a host plugin that injects it. */
async function plant(work = {}) {
  const root = new Context();
  const config = { persona: work.persona ?? "" };
  if (work.tool_order) config.toolOrder = work.tool_order;
  await root.plugin(SystemPrompt, config);
  let host;
  await root.plugin({ name: "host", inject: ["systemPrompt"], apply: (ctx) => { host = ctx; } });
  return { root, host };
}

const textOf = (text) => typeof text === "string"
  ? text
  : (context) => text.provider + (context.scope ? context.scope.id : "none");

function register(ctx, part) {
  const prompt = ctx.systemPrompt;
  for (const { name, text, order } of part.sections ?? []) {
    prompt.section({ name, text: textOf(text), order });
  }
  for (const { name, text, order } of part.contexts ?? []) {
    prompt.context({ name, text: textOf(text), order });
  }
  for (const [name, value] of Object.entries(part.variables ?? {})) {
    prompt.variable(name, () => value);
  }
}

function mint(host, scopes) {
  const keys = new Map();
  for (const scope of scopes) {
    const key = { id: scope.id };
    keys.set(scope.id, key);
    const options = scope.parent ? { parent: keys.get(scope.parent) } : undefined;
    register(createScope(host, key, options).ctx, scope);
  }
  return keys;
}

const BEHAVIOURS = {
  append_section: ({ name, text }) => async (assembly, context, next) => {
    assembly.sections.push({ name, text });
    return await next();
  },
  mutate_text: ({ name, text }) => async (assembly, context, next) => {
    for (const section of assembly.sections) if (section.name === name) section.text += text;
    return await next();
  },
  after_append_context: ({ name, text }) => async (assembly, context, next) => {
    const result = await next();
    result.contexts.push({ name, text });
    return result;
  },
};

const plain = (assembly) => ({
  sections: assembly.sections.map((s) => [s.name, s.text]),
  contexts: assembly.contexts.map((s) => [s.name, s.text]),
  tools: assembly.tools,
  variables: assembly.variables,
  prompt: renderPrompt(assembly),
  snapshot: renderContextSnapshot(assembly),
});

async function assembleWork(work) {
  const { host } = await plant(work);
  register(host, work);
  if (work.tools.length) host.systemPrompt.tools(() => ({ schemas: work.tools }));
  const keys = mint(host, work.scopes);
  for (const each of work.listeners) {
    host.on("system-prompt/assemble", BEHAVIOURS[each.behaviour](each));
  }
  const targets = work.targets.map((id) => id === null ? undefined : keys.get(id));
  const prompt = host.systemPrompt;
  const once = async (key) => {
    const assembly = await prompt.assemble(key === undefined ? {} : { scope: key });
    return [assembly, renderPrompt(assembly), renderContextSnapshot(assembly)];
  };
  let turn = 0;
  return {
    async result() {
      const picked = [...new Set([targets[0], targets[targets.length - 1]])];
      const out = [];
      for (const key of picked) out.push(plain((await once(key))[0]));
      return out;
    },
    async run(count) {
      for (let i = 0; i < count; i++) {
        await once(targets[turn]);
        turn = (turn + 1) % targets.length;
      }
    },
  };
}

async function emitWork(work) {
  const { root, host } = await plant();
  const heard = [];
  for (let i = 0; i < work.listeners; i++) {
    heard.push(0);
    host.on(TICK, (value) => { heard[i] += value; });
  }
  return {
    async result() {
      const before = [...heard];
      root.emit(TICK, 1);
      return heard.map((count, i) => count - before[i]);
    },
    run(count) {
      for (let i = 0; i < count; i++) root.emit(TICK, 1);
    },
  };
}

async function emitScopedWork(work) {
  const { root, host } = await plant();
  const keys = [];
  const heard = [];
  for (let i = 0; i < work.scopes; i++) {
    const key = { id: String(i) };
    keys.push(key);
    heard.push(0);
    createScope(host, key).ctx.on(TICK, (value) => { heard[i] += value; });
  }
  const key = keys[work.target];
  return {
    async result() {
      const before = [...heard];
      root.emit(scopeTarget(ANYONE, key), TICK, 1);
      return heard.flatMap((count, i) => count === before[i] ? [] : [[i, count - before[i]]]);
    },
    run(count) {
      for (let i = 0; i < count; i++) root.emit(scopeTarget(ANYONE, key), TICK, 1);
    },
  };
}

async function waterfallWork(work) {
  const { root, host } = await plant();
  for (let i = 0; i < work.listeners; i++) {
    host.on(FLOW, async (value, next) => value + await next());
  }
  const inner = async () => 1;
  return {
    result: () => root.waterfall(FLOW, 2, inner),
    async run(count) {
      for (let i = 0; i < count; i++) await root.waterfall(FLOW, 2, inner);
    },
  };
}

/** The plugin of the mount rows: its config says which of the live ones it is. */
const PLUGIN = {
  name: "guest",
  inject: ["systemPrompt"],
  apply(ctx, config) {
    const at = config.at;
    const prompt = ctx.systemPrompt;
    prompt.section({ name: `guest-${at}:a`, text: "First words.", order: 10 });
    prompt.section({ name: `guest-${at}:b`, text: "Second words.", order: 20 });
    prompt.section({ name: `guest-${at}:c`, text: "Third words.", order: 30 });
    prompt.variable(`guest_${at}`, () => "value");
    ctx.on(TICK, () => {});
  },
};

async function mountWork(work) {
  const { host } = await plant();
  let changes = 0;
  host.on("system-prompt/change", () => { changes++; }, { global: true });
  const names = async () => {
    const assembly = await host.systemPrompt.assemble({});
    return [assembly.sections.map((s) => s.name), Object.keys(assembly.variables)];
  };
  const up = async () => {
    const fibers = [];
    for (let at = 0; at < work.live; at++) {
      const fiber = host.plugin(PLUGIN, { at });
      await fiber;
      fibers.push(fiber);
    }
    return fibers;
  };
  const down = async (fibers) => {
    for (const fiber of fibers) await fiber.dispose();
  };
  return {
    unit: work.live,
    async result() {
      const before = changes;
      const fibers = await up();
      const during = await names();
      await down(fibers);
      return [during, await names(), changes - before];
    },
    async run(count) {
      for (let i = 0; i < count; i++) await down(await up());
    },
  };
}

async function scopeWork(work) {
  const { host } = await plant();
  mint(host, work.beside);
  let changes = 0;
  host.on("system-prompt/change", () => { changes++; }, { global: true });
  const key = { id: work.own.id };
  const [a, b, c] = work.own.sections;
  const up = () => {
    const scope = createScope(host, key);
    const prompt = scope.ctx.systemPrompt;
    prompt.section({ name: a.name, text: a.text, order: a.order });
    prompt.section({ name: b.name, text: b.text, order: b.order });
    prompt.section({ name: c.name, text: c.text, order: c.order });
    return scope;
  };
  const names = async () =>
    (await host.systemPrompt.assemble({ scope: key })).sections.map((s) => s.name);
  return {
    async result() {
      const before = changes;
      const scope = up();
      const during = await names();
      await scope.dispose();
      return [during, await names(), changes - before];
    },
    async run(count) {
      for (let i = 0; i < count; i++) await up().dispose();
    },
  };
}

async function readWork() {
  const { host } = await plant();
  let seen;
  return {
    result: async () => typeof host.systemPrompt.section,
    run(count) {
      for (let i = 0; i < count; i++) seen = host.systemPrompt;
      return seen;
    },
  };
}

/** Bytes: `run` is replaced by `measure`, which builds all scopes and says what one costs. */
async function memoryWork(work) {
  return {
    result: async () => work.scopes.length,
    async measure() {
      const { host } = await plant();
      const keys = work.scopes.map((scope) => ({ id: scope.id }));
      mint(host, work.scopes.slice(0, 1)); // classes and hidden shapes are there before counting
      const live = [];
      const values = work.scopes.map((scope) => {
        const value = scope.variables.agent;
        return () => value;
      });
      globalThis.gc();
      const before = process.memoryUsage().heapUsed;
      for (let i = 0; i < keys.length; i++) {
        const scope = createScope(host, keys[i]);
        const prompt = scope.ctx.systemPrompt;
        for (const { name, text, order } of work.scopes[i].sections) {
          prompt.section({ name, text, order });
        }
        prompt.variable("agent", values[i]);
        live.push(scope);
      }
      if (work.assemble) for (const key of keys) await host.systemPrompt.assemble({ scope: key });
      globalThis.gc();
      const after = process.memoryUsage().heapUsed;
      return (after - before) / live.length;
    },
  };
}

const BUILDERS = {
  assemble: assembleWork,
  emit: emitWork,
  emit_scoped: emitScopedWork,
  waterfall: waterfallWork,
  mount: mountWork,
  scope: scopeWork,
  read: readWork,
  memory: memoryWork,
};

let current;

const COMMANDS = {
  async build({ work }) {
    current = await BUILDERS[work.kind](work);
    return { ok: true };
  },
  async result() {
    return { result: await current.result() };
  },
  async warm({ ms }) {
    const start = now();
    const end = start + BigInt(Math.round(ms * 1e6));
    let count = 0;
    let step = 1;
    while (now() < end) {
      await current.run(step);
      count += step;
      if (step < 256) step *= 2;
    }
    return { ns: Number(now() - start), count };
  },
  async round({ count }) {
    globalThis.gc();
    const start = now();
    await current.run(count);
    return { ns: Number(now() - start) };
  },
  async measure() {
    return { bytes: await current.measure() };
  },
  async close() {
    current = undefined;
    globalThis.gc();
    return { ok: true };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const command = JSON.parse(line);
    answer = await COMMANDS[command.do](command);
  } catch (error) {
    answer = { error: String(error?.message ?? error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
