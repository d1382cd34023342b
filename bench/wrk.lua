-- SPDX-License-Identifier: Apache-2.0
--
-- Single enqueues by wrk: jobs of one length with random payloads, made before the clock starts.
--
--   wrk -t 1 -c 64 -d 5s -s bench/wrk.lua URL -- [QUEUE [PAYLOAD]]
--
-- As many requests as the variable BENCH_DEPTH says (1) are sent together on a connection, and the
-- next ones when all of them are answered. The times are corrected by wrk itself for coordinated
-- omission, in a way that works for a depth of 1 only: with more there are none. The last line of
-- the output is a JSON object. wrk ends with 1 if a request failed or was answered 400 or above;
-- whoever calls it compares `jobs` with the server's own count, which may be higher by what was
-- under way at the end.

local pool, position = {}, 0
local depth = tonumber(os.getenv("BENCH_DEPTH") or 1)
local size = math.floor(1024 / depth)

local letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

local function noise(length)
   local out = {}
   for i = 1, length do
      local at = math.random(#letters)
      out[i] = letters:sub(at, at)
   end
   return table.concat(out)
end

function init(args)
   local queue = args[1] or "bench"
   local payload = tonumber(args[2] or 200)
   local frame = #'{"data":""}'
   math.randomseed(1)
   wrk.headers["Content-Type"] = "application/json"
   for i = 1, size do
      local batch = {}
      for j = 1, depth do
         batch[j] = wrk.format("POST", "/jobs", nil, string.format(
            '{"queue":"%s","type":"t","payload":{"data":"%s"}}', queue, noise(payload - frame)))
      end
      pool[i] = table.concat(batch)
   end
end

function request()
   position = position % size + 1
   return pool[position]
end

function done(summary, latency)
   local e = summary.errors
   if e.connect + e.read + e.write + e.status + e.timeout > 0 or summary.requests == 0 then
      io.stderr:write(string.format(
         "wrk: %d requests; errors: %d of connecting, %d of reading, %d of writing, %d timeouts, %d statuses\n",
         summary.requests, e.connect, e.read, e.write, e.timeout, e.status))
      os.exit(1)
   end
   local seconds = summary.duration / 1e6
   io.write(string.format('\n{"jobs":%d,"seconds":%.3f,"jobs_per_s":%.0f', summary.requests, seconds,
      summary.requests / seconds))
   if depth == 1 then
      io.write(string.format(',"request_p50_us":%.1f,"request_p99_us":%.1f,"request_p999_us":%.1f',
         latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
   end
   io.write("}\n")
end
