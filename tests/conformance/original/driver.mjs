// Replays conformance cases on the original packages.
//
// One case a line on stdin, `{"id", "ops": [{"do"}, ...]}`; the same case a line on stdout, with
// `expect` filled in by what the original answered. The process lives until stdin ends, so that a
// test session pays for the start of node once. FORMAT.md beside this folder explains the ops.

import { Context } from "@deepseek-ai/cordis";
import { createScope } from "@deepseek-ai/dsh-scope";
import { SystemPrompt, renderContextSnapshot, renderPrompt } from "@deepseek-ai/dsh-system-prompt";

const ASSEMBLE = "system-prompt/assemble";
const CHANGE = "system-prompt/change";
const REQUIRES_PROMPT = ["systemPrompt"];

// stdout belongs to the protocol.
console.log = console.info = console.debug = console.warn = console.error;
process.on("unhandledRejection", (error) => console.error(error));

/** What a listener with the behaviour `throw` raises. */
class ListenerRaised extends Error {}

/** An operation on a plugin whose mount was refused, so that there is none. */
class NothingThere extends Error {}

// ---- errors -------------------------------------------------------------------------------------

const quotedNames = (list) => list.slice(1, -1).split('", "');
const plainNames = (list) => (list === "(none)" ? [] : list.split(", "));

// The original says everything in the message, so each row takes a message apart. Names of
// registrations come from the op instead, where they cannot be mistaken for punctuation. Complete
// sections are quoted as JSON, everything else as it is.
const FACTS = [
  [/^prompt (?:section|context|variable) "[^]*" is already registered( in this scope)?/, ([, scope], op, message) => ({
    kind: "duplicate", of: op.op, name: op.name,
    layer: scope && message.endsWith(" in this scope") ? "scope" : "global",
  })],
  [/order must be a finite number$/, (_, op) => ({ kind: "non-finite-order", of: op.op, name: op.name })],
  [/^invalid prompt variable name /, (_, op) => ({ kind: "invalid-variable-name", name: op.name })],
  [/^cannot create effect on inactive context$/, () => ({ kind: "inactive" })],
  [/^service "systemPrompt" has been registered at /, () => ({ kind: "service-conflict" })],
  [/^invalid config:/, () => ({ kind: "invalid-config" })],
  [/^toolOrder must contain the /, () => ({ kind: "tool-order-without-rest" })],
  [/^toolOrder lists "([^]*)" more than once$/, ([, name]) => ({ kind: "tool-order-duplicate", name })],
  [/^toolOrder lists unregistered tools? ("[^]*"); known tools: ([^]*)$/, ([, names, known]) => ({
    kind: "unknown-tools-in-order", names: quotedNames(names), known: plainNames(known),
  })],
  [/^tool provider returned reserved tool name /, () => ({ kind: "reserved-tool-name" })],
  [/^multiple complete prompt sections are active: ("[^]*")$/, ([, names]) => ({
    kind: "multiple-complete", names: JSON.parse(`[${names}]`),
  })],
  [/^unknown prompt variable "\{\{([^]*?)\}\}" in (section|context) "([^]*)"; registered variables: ([^"]*)$/,
    ([, reference, owner_kind, owner_name, known]) => ({
      kind: "unknown-variable", reference, owner_kind, owner_name, known: plainNames(known),
    })],
  [/^prompt variable "\{\{([^]*?)\}\}" has no value for this assembly \((section|context) "([^]*)"\)$/,
    ([, reference, owner_kind, owner_name]) => ({ kind: "missing-variable", reference, owner_kind, owner_name })],
  [/^malformed prompt variable reference [^]* in (section|context) "([^]*)" \((?:variable names|references) /,
    ([, owner_kind, owner_name]) => ({ kind: "malformed-reference", owner_kind, owner_name })],
];

function describeError(error, op) {
  if (error instanceof ListenerRaised) return { kind: "listener-raised", message: error.message };
  if (error instanceof NothingThere) return { kind: "nothing-there" };
  const message = String(error?.message ?? error);
  for (const [pattern, facts] of FACTS) {
    const match = pattern.exec(message);
    if (match) return facts(match, op, message);
  }
  return { kind: "unclassified", message };
}

// ---- providers and listeners --------------------------------------------------------------------

const PROVIDERS = {
  const: (value) => () => value,
  counter: (value) => {
    let calls = 0;
    return () => `${value}${++calls}`;
  },
  scope_id: (value) => (context) => `${value}${context.scope?.id ?? "none"}`,
};

const provider = ({ kind, value }) => PROVIDERS[kind](value);

const appendTo = (field, method) => ({ name, text }) => (assembly, _context, next) => {
  assembly[field][method]({ name, text });
  return next();
};

const BEHAVIOURS = {
  append_section: appendTo("sections", "push"),
  prepend_section: appendTo("sections", "unshift"),
  append_context: appendTo("contexts", "push"),
  mutate_text: ({ name, suffix }) => (assembly, _context, next) => {
    for (const section of assembly.sections) if (section.name === name) section.text += suffix;
    return next();
  },
  set_variable: ({ name, value }) => (assembly, _context, next) => {
    assembly.variables[name] = value;
    return next();
  },
  add_tool: ({ name, description, parameters }) => (assembly, _context, next) => {
    assembly.tools.push({ name, description, parameters });
    return next();
  },
  mutate_tool: ({ name, suffix }) => (assembly, _context, next) => {
    for (const tool of assembly.tools) {
      if (tool.name !== name) continue;
      tool.description += suffix;
      tool.parameters = { ...tool.parameters, mutated: suffix };
    }
    return next();
  },
  short_circuit: ({ sections = [], contexts = [], tools = [], variables = {} }) => () =>
    structuredClone({ sections, contexts, tools, variables }),
  after_append: ({ name, text }) => async (_assembly, _context, next) => {
    const result = await next();
    result.sections.push({ name, text });
    return result;
  },
  throw: ({ message }) => () => {
    throw new ListenerRaised(message);
  },
};

// ---- registrations ------------------------------------------------------------------------------

const number = (order) => (typeof order === "string" ? Number(order) : order);
const textOf = (op) => (op.text_provider ? provider(op.text_provider) : op.text);
const clone = (value) => structuredClone(value);

/** What performs one registration through `ctx`; each returns the effect. */
const REGISTRATIONS = {
  section: (ctx, op) =>
    ctx.systemPrompt.section({
      name: op.name, text: textOf(op), order: number(op.order),
      ...(op.complete === undefined ? {} : { complete: op.complete }),
    }),
  context: (ctx, op) => ctx.systemPrompt.context({ name: op.name, text: textOf(op), order: number(op.order) }),
  variable: (ctx, op) =>
    ctx.systemPrompt.variable(op.name, op.value_provider ? provider(op.value_provider) : () => op.value ?? undefined),
  tools: (ctx, op) =>
    ctx.systemPrompt.tools(() =>
      clone(op.knownNames ? { schemas: op.schemas, knownNames: op.knownNames } : { schemas: op.schemas })),
  suppress: (ctx) => ctx.systemPrompt.suppressRuntimeContext(),
  listener: (ctx, op) =>
    ctx.on(ASSEMBLE, BEHAVIOURS[op.behaviour](op.args), { prepend: op.prepend ?? false, global: op.global ?? false }),
};

// ---- one case -----------------------------------------------------------------------------------

/** One fresh tree, and what the ops of one case have named in it. */
class Replay {
  root = new Context();
  host = undefined;
  changes = 0;
  scopes = new Map();
  plugins = new Map();
  handles = new Map();

  constructor() {
    this.root.on(CHANGE, () => void this.changes++);
  }

  async perform(op) {
    try {
      return (await (REGISTRATIONS[op.op] ? this.register(this.contextOf(op), op) : this[op.op](op))) ?? null;
    } catch (error) {
      return { error: describeError(error, op) };
    }
  }

  contextOf(op) {
    if (op.scope !== undefined) return this.scopes.get(op.scope).ctx;
    if (op.parent !== undefined) return this.fiber(op.parent).ctx;
    return this.root;
  }

  fiber(id) {
    if (!this.plugins.has(id)) throw new NothingThere(id);
    return this.plugins.get(id);
  }

  register(ctx, op) {
    const effect = REGISTRATIONS[op.op](ctx, op);
    if (op.handle !== undefined) this.handles.set(op.handle, effect);
  }

  async mount({ config = {} }) {
    await this.root.plugin(SystemPrompt, config);
    if (this.host) return;
    const apply = (ctx) => void (this.host = ctx);
    await this.root.plugin({ name: "host", inject: REQUIRES_PROMPT, apply });
  }

  scope({ id, parent }) {
    const key = { id };
    const options = parent === undefined ? {} : { parent: this.scopes.get(parent).key };
    this.scopes.set(id, { key, ...createScope(this.host, key, options) });
  }

  async dispose_scope({ id }) {
    await this.scopes.get(id).dispose();
  }

  async plugin(op) {
    let culprit = op;
    const apply = (ctx) => {
      for (const reg of op.regs) {
        culprit = reg;
        this.register(ctx, reg);
      }
    };
    const fiber = this.contextOf(op).plugin({ name: op.id, inject: REQUIRES_PROMPT, apply });
    this.plugins.set(op.id, fiber);
    try {
      await fiber;
    } catch (error) {
      await fiber.dispose();
      return { error: describeError(error, culprit) };
    }
  }

  async dispose_plugin({ id }) {
    await this.fiber(id).dispose();
  }

  async undo({ handle }) {
    await this.handles.get(handle)?.();
  }

  change_count() {
    const count = this.changes;
    this.changes = 0;
    return count;
  }

  async assemble({ scope }) {
    const context = scope === undefined ? {} : { scope: this.scopes.get(scope).key };
    const assembly = await this.root.systemPrompt.assemble(context);
    const variables = Object.entries(assembly.variables).map(([name, value]) => [name, value ?? null]);
    return {
      sections: assembly.sections.map(({ name, text }) => ({ name, text })),
      contexts: assembly.contexts.map(({ name, text }) => ({ name, text })),
      tools: assembly.tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
      variables: Object.fromEntries(variables),
      prompt: rendered(renderPrompt, assembly),
      snapshot: rendered(renderContextSnapshot, assembly),
    };
  }
}

function rendered(render, assembly) {
  try {
    return render(assembly);
  } catch (error) {
    return { error: describeError(error) };
  }
}

async function replay({ id, ops }) {
  const tree = new Replay();
  const answered = [];
  for (const { do: op } of ops) answered.push({ do: op, expect: await tree.perform(op) });
  await tree.root.fiber.dispose();
  return { id, ops: answered };
}

// Split by hand: a line reader would also break lines at U+2028 and U+2029, which JSON allows.
async function* lines(stream) {
  stream.setEncoding("utf8");
  let rest = "";
  for await (const chunk of stream) {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop();
    yield* parts;
  }
  if (rest) yield rest;
}

for await (const line of lines(process.stdin)) process.stdout.write(`${JSON.stringify(await replay(JSON.parse(line)))}\n`);
