"""Rounds of redis-benchmark over variants in turns; CPU per op, user and system, and the server's counters."""
import signal
def _stop(*_): raise KeyboardInterrupt
signal.signal(signal.SIGTERM,_stop)
import subprocess,sys,os,time,random,socket,statistics,tempfile
T=os.sysconf("SC_CLK_TCK")
rounds=int(sys.argv[1]); loads=sys.argv[2].split(","); variants=[v.split("=",1) for v in sys.argv[3:]]
L={"P1c50":(["-c","50"],100000,100000),"P1c1000":(["-c","1000"],100000,10000),"P1c1":(["-c","1"],10000,10000),"P1c8":(["-c","8"],40000,10000)}
def busy():
    line=[l for l in open("/proc/stat") if l.startswith("cpu0 ")][0]
    t=list(map(int,line.split()[1:9])); return (time.monotonic()*1e6-(t[3]+t[4])/T*1e6, t[7]/T*1e6)
def child():
    t=os.times(); return (t.children_user+t.children_system)*1e6
def ksoft():
    return sum(int(open(f"/proc/{p}/schedstat").read().split()[0])/1e3 for p in KS)
KS=[p for p in os.listdir("/proc") if p.isdigit() and open(f"/proc/{p}/comm").read().startswith("ksoftirqd")]
def info(port):
    with socket.create_connection(("127.0.0.1",port)) as c:
        c.sendall(b"*2\r\n$4\r\nINFO\r\n$3\r\nall\r\n"); time.sleep(.02); t=c.recv(1<<17).decode(errors="replace")
    return {a:float(b) for a,b in (l.split(":",1) for l in t.splitlines() if ":" in l) if b.isdigit()}
def ctx(pid):
    return [int(l.split()[1]) for l in open("/proc/%d/status"%pid) if "ctxt" in l]
S=[]
for name,cmd in variants:
    s=socket.socket(); s.bind(("127.0.0.1",0)); port=s.getsockname()[1]; s.close()
    d=tempfile.mkdtemp()
    if cmd=="redis": cmd="/usr/bin/redis-server --bind 127.0.0.1 --port {port} --dir {dir} --save '' --appendonly no"
    elif not cmd.startswith("/"): cmd="/tmp/uring/target/release/bare --port {port} "+cmd
    import shlex
    S.append((name,port,subprocess.Popen(["taskset","-c","0"]+shlex.split(cmd.format(port=port,dir=d)),stdout=subprocess.DEVNULL)))
time.sleep(.3)
R={}
try:
    for r in range(rounds):
        for l in loads:
            for t in (os.environ.get("TESTS","set,get").split(",")):
                k=r%len(S)
                for name,port,p in S[k:]+S[:k]:
                    a,n,keys=L[l]
                    i0=info(port);c0=ctx(p.pid)
                    f0=open("/proc/%d/stat"%p.pid).read().rsplit(")",1)[1].split();s0=int(open("/proc/%d/schedstat"%p.pid).read().split()[0])
                    b0=busy();h0=child();k0=ksoft()
                    o=subprocess.run(["taskset","-c","1","redis-benchmark","-h","127.0.0.1","-p",str(port),"-t",t,"-n",str(n),"-r",str(keys),"-P","1","-d","64","--csv"]+a,capture_output=True,text=True).stdout
                    f1=open("/proc/%d/stat"%p.pid).read().rsplit(")",1)[1].split();s1=int(open("/proc/%d/schedstat"%p.pid).read().split()[0])
                    b1=busy();h1=child();k1=ksoft()
                    c1=ctx(p.pid);i1=info(port)
                    row=[float(v.strip('"')) for v in [x for x in o.splitlines() if x.lower().startswith('"%s'%t)][-1].split(",")[1:]];rps=row[0]
                    u,s=[(int(f1[j])-int(f0[j]))/T/n*1e6 for j in (11,12)]
                    g=lambda k:(i1.get(k,0)-i0.get(k,0))/n
                    R.setdefault((l,t,name),[]).append((rps,u+s,u,s,(s1-s0)/n/1e3,g("waits"),(c1[0]-c0[0])/n,(c1[1]-c0[1])/n,g("rearmed"),row[3]*1e3,row[5]*1e3,(h1-h0)/n,(b1[0]-b0[0])/n,(k1-k0)/n,(b1[1]-b0[1])/n))
except KeyboardInterrupt: print("cut short")
finally:
    for _,_,p in S: p.kill();p.wait()
base=S[0][0]
print("load test variant rps | stat us/op (user sys) | sched us/op | ratio [min-max] | waits/op vol inv rearmed")
for (l,t,name),x in R.items():
    m=[statistics.median(c) for c in zip(*x)]
    q=[a[4]/b[4] for a,b in zip(x,R[l,t,base])]
    print("%-8s %s %-16s %7.0f  %5.2f (%.2f %.2f) %6.2f  %.3f [%.3f-%.3f]  %.3f %.3f %.3f %.4f | p50 %.0f p99 %.0f us | client %.2f cpu0 not idle %.2f ksoftirqd %.3f steal %.2f"%(l,t,name,m[0],m[1],m[2],m[3],m[4],statistics.median(q),min(q),max(q),m[5],m[6],m[7],m[8],*m[9:]))
