"""The CPU of each server's samples: user and system from /proc/PID/stat, run time from schedstat, switches."""
import statistics, re
flags = dict(reversed(l.rstrip("\n").split("=", 1)) for l in open("/tmp/uring/variants") if "=" in l)
cells = {}
for line in open("/tmp/uring/split.log"):
    cmd, rest = line.rsplit("|", 1)
    f = rest.split()
    n = int(f[3]); a = list(map(int, f[4:9])); b = list(map(int, f[9:14])); d = [y - x for x, y in zip(a, b)]
    if "redis-server" in cmd: name = "redis-server"
    elif "--engine" in cmd: name = re.search(r"--engine (\S+)", cmd).group(1)
    else: name = flags[re.sub(r".*--port \d+ *", "", cmd).strip()]
    cells.setdefault(("P1" + f[1], f[2], name), []).append((d[0] / n * 1e4, d[1] / n * 1e4, d[2] / n / 1e3, d[3] / n, d[4] / n))
print("\nCPU per operation, medians of samples: user and system (stat, ticks of 10 ms), run time (schedstat), switches per operation")
print("%-8s %-4s %-14s %7s %7s %7s %9s %6s %6s %s" % ("load", "test", "server", "user", "system", "system%", "run us/op", "vol", "invol", "ratio of run time to redis-server [min-max]; to epoll"))
for (l, t, name), rows in sorted(cells.items(), key=lambda c: (c[0][0] != "P1c50", c[0][1] != "set")):
    m = [statistics.median(c) for c in zip(*rows)]
    def ratio(base):
        o = cells.get((l, t, base), [])
        q = [x[2] / y[2] for x, y in zip(rows, o)]
        return "%.2f [%.2f-%.2f]" % (statistics.median(q), min(q), max(q)) if q else "-"
    print("%-8s %-4s %-14s %7.2f %7.2f %7.0f %9.2f %6.3f %6.3f %s; %s" % (l, t, name, m[0], m[1], 100 * m[1] / (m[0] + m[1] or 1), m[2], m[3], m[4], ratio("redis-server"), ratio("epoll")))
