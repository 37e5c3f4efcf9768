// Runs the npm package graphile-worker as a peer.
//   node peer.mjs once|listen SETTINGS     a worker, with SETTINGS (JSON) for its preset
//   node peer.mjs send SAMPLES             adds jobs to an idle worker, prints how soon each began
// The package is found by GRAPHILE_WORKER_INDEX, the database by DATABASE_URL.
import dgram from "node:dgram";
import { pathToFileURL } from "node:url";

const { makeWorkerUtils, run, runOnce } = await import(
  pathToFileURL(process.env.GRAPHILE_WORKER_INDEX)
);
const connectionString = process.env.DATABASE_URL;
const [mode, argument] = process.argv.slice(2);
const WARM_UP = 20;

const socket = mode === "once" ? null : dgram.createSocket("udp4");
const taskList = {
  nothing: async () => {},
  tell: async ({ port }) => {
    const began = process.hrtime.bigint();
    socket.send(String(began), port, "127.0.0.1");
  },
};

async function send(samples) {
  await new Promise((bound) => socket.bind(0, "127.0.0.1", bound));
  const { port } = socket.address();
  const utils = await makeWorkerUtils({ connectionString });
  const taken = [];
  for (let number = -WARM_UP; number < samples; number++) {
    await new Promise((go) => setTimeout(go, 12 + 6 * Math.random()));
    const heard = new Promise((started) => socket.once("message", started));
    const began = process.hrtime.bigint();
    await utils.addJob("tell", { port });
    const returned = process.hrtime.bigint();
    const started = BigInt(String(await heard));
    if (number >= 0) taken.push([Number(started - began) / 1e6, Number(returned - began) / 1e6]);
  }
  await utils.release();
  socket.close();
  console.log(JSON.stringify(taken));
}

if (mode === "send") {
  await send(Number(argument));
} else {
  const preset = { worker: { connectionString, ...JSON.parse(argument) } };
  if (mode === "once") {
    await runOnce({ preset, taskList });
  } else {
    const runner = await run({ preset, taskList });
    await runner.promise;
    socket.close();
  }
}
