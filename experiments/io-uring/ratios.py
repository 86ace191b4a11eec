"""Ratios of CPU per operation within a pass, from side.txt: median [least-greatest] of set and get together."""
import statistics as st
D = {}
for line in open("/tmp/uring/side.txt"):
    if line.startswith("pass "):
        f = line.split(); D[f[2], f[3], f[4], int(f[1])] = float(f[6])
names = list(dict.fromkeys(k[2] for k in D))
for base in ("epoll", "redis-server"):
    for load in ("P1c50", "P1c1000"):
        for n in names:
            q = [D[load, t, n, p] / D[load, t, base, p] for t in ("set", "get") for p in range(1, 6)]
            print("%-12s %-8s %-13s %.2f [%.2f-%.2f]" % (base, load, n, st.median(q), min(q), max(q)))
