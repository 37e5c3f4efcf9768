// A program of Graphile Worker, for the tests of a mixed fleet.
//   node peer.mjs work SETTINGS   a worker; SETTINGS (JSON) has `worker` for its preset, `tasks`,
//                                 `numbers` (names of tasks that note numbers), `forbiddenFlags`
//   node peer.mjs call CALLS      makes calls of its utils, [[name, argument, ...], ...], one after
//                                 the other, and prints what they return
//   node peer.mjs clean TASKS     cleans up again and again until told to stop (SIGTERM)
//   node peer.mjs storm SETTINGS  asks for keyed jobs until told to stop (SIGTERM), prints what came
// The package is found by GRAPHILE_WORKER_INDEX, the database by DATABASE_URL, and the schema by
// GRAPHILE_WORKER_PEER_SCHEMA.
import { pathToFileURL } from "node:url";

const imported = await import(pathToFileURL(process.env.GRAPHILE_WORKER_INDEX));
const { makeWorkerUtils, run } = imported.run ? imported : imported.default;
const connectionString = process.env.DATABASE_URL;
const schema = process.env.GRAPHILE_WORKER_PEER_SCHEMA;
const [mode, argument] = process.argv.slice(2);
const settings = JSON.parse(argument);

const noteRun = async (payload, { job, query }) => {
  const { rows } = await query(
    "insert into runs (peer, worker, job, task, attempt, payload) values ('node', $1, $2, $3, $4, $5)" +
      " returning id",
    [job.locked_by, job.id, job.task_identifier, job.attempts, JSON.stringify(payload)],
  );
  return rows[0].id;
};

const noteEnd = (run, query) =>
  query("update runs set ended = clock_timestamp() where id = $1", [run]);

// Each does what its namesake in fleet_tasks.py does.
const taskList = {
  note: async (payload, helpers) => {
    const run = await noteRun(payload, helpers);
    if (payload.hold) {
      await helpers.query("select pg_advisory_lock($1), pg_advisory_unlock($1)", [payload.hold]);
    }
    if (payload.pause) await new Promise((go) => setTimeout(go, payload.pause));
    await noteEnd(run, helpers.query);
    if (payload.fail) throw new Error("asked to");
  },
  batch: async (items, helpers) => {
    await noteEnd(await noteRun(items, helpers), helpers.query);
    return items.map(async (item) => {
      if (item.fails_in.includes("node")) throw new Error(`item ${item.n} was asked to`);
    });
  },
};

const noteNumbers = (payload, { query }) =>
  query("insert into carried select 'node', value::bigint from json_array_elements_text($1)", [
    JSON.stringify(payload),
  ]);

async function work() {
  const { worker, tasks = Object.keys(taskList), numbers = [], forbiddenFlags } = settings;
  const served = Object.fromEntries(tasks.map((name) => [name, taskList[name]]));
  for (const name of numbers) served[name] = noteNumbers;
  const preset = { worker: { connectionString, schema, pollInterval: 100, ...worker } };
  const runner = await run({ preset, taskList: served, forbiddenFlags });
  await runner.promise;
}

async function call() {
  const utils = await makeWorkerUtils({ connectionString, schema });
  const returned = [];
  for (const [name, ...values] of settings) returned.push(await utils[name](...values));
  await utils.release();
  console.log(JSON.stringify(returned));
}

async function clean() {
  let stopping = false;
  let cleanings = 0;
  const errors = [];
  process.once("SIGTERM", () => (stopping = true));
  const utils = await makeWorkerUtils({ connectionString, schema });
  console.log("is ready.");
  while (!stopping) {
    try {
      await utils.cleanup({ tasks: settings });
      cleanings++;
      await new Promise((go) => setTimeout(go, 50));
    } catch (error) {
      errors.push(String(error));
    }
  }
  await utils.release();
  console.log(JSON.stringify({ cleanings, errors }));
}

// What became of each request: a number that a call has returned for must be carried by some run.
async function storm() {
  const { first, keys, tasks, queues } = settings;
  const told = { committed: [], missing: [], deadlocks: [], errors: [], calls: 0 };
  let next = first;
  let stopping = false;
  process.once("SIGTERM", () => (stopping = true));
  const pick = (list) => list[Math.floor(Math.random() * list.length)];
  const shuffled = (list) => [...list].sort(() => Math.random() - 0.5);
  const spec = (jobKey) => ({ identifier: pick(tasks), payload: [next++], jobKey, queueName: pick(queues) });
  const utils = await makeWorkerUtils({ connectionString, schema, maxPoolSize: 4 });
  console.log("is ready.");

  const one = async () => {
    const { identifier, payload, ...rest } = spec(pick(keys));
    const jobKeyMode = pick(["replace", "preserve_run_at"]);
    const job = await utils.addJob(identifier, payload, { ...rest, jobKeyMode });
    return [[{ payload, ...rest }], [job]];
  };
  const many = async () => {
    const specs = shuffled(keys).slice(0, 5).map(spec);
    return [specs, await utils.addJobs(specs, Math.random() < 0.5)];
  };
  const loop = async (make) => {
    while (!stopping) {
      try {
        const [specs, jobs] = await make();
        told.calls++;
        const whole =
          jobs.length === specs.length &&
          jobs.every((job, i) => job?.id != null && job.key === specs[i].jobKey);
        if (!whole) told.missing.push([specs, jobs]);
        for (const each of specs) told.committed.push(each.payload[0]);
      } catch (error) {
        (error.code === "40P01" ? told.deadlocks : told.errors).push(String(error));
      }
    }
  };
  await Promise.all([loop(one), loop(many)]);
  await utils.release();
  console.log(JSON.stringify(told));
}

await { work, call, clean, storm }[mode]();
