import socket,subprocess,sys,time,random
port=random.randint(20000,30000)
p=subprocess.Popen(["/tmp/uring/target/release/bare","--port",str(port)]+sys.argv[1:])
time.sleep(.2)
def req(*w):
    w=[x if isinstance(x,bytes) else x.encode() for x in w]
    return b"*%d\r\n"%len(w)+b"".join(b"$%d\r\n%s\r\n"%(len(x),x) for x in w)
try:
    conns=[socket.create_connection(("127.0.0.1",port)) for _ in range(100)]
    for c in conns: c.settimeout(5)
    def read(c,n):
        b=b""
        while len(b)<n:
            x=c.recv(1<<16)
            assert x,"closed"
            b+=x
        return b
    rng=random.Random(1)
    model={}
    for turn in range(300):
        c=rng.choice(conns); k=b"k%d"%rng.randrange(50)
        want=b"";data=b""
        for _ in range(rng.randrange(1,20)):
            k=b"k%d"%rng.randrange(50)
            if rng.random()<.5:
                v=bytes(rng.randrange(256) for _ in range(rng.randrange(0,300)))
                model[k]=v; data+=req("SET",k,v); want+=b"+OK\r\n"
            else:
                v=model.get(k); data+=req("get",k); want+=b"$-1\r\n" if v is None else b"$%d\r\n%s\r\n"%(len(v),v)
        if turn%3==0:
            at=0
            while at<len(data):
                n=rng.randrange(1,400); c.sendall(data[at:at+n]); at+=n
                if rng.random()<.05: time.sleep(.0005)
        else: c.sendall(data)
        got=read(c,len(want)); assert got==want,(got[:80],want[:80])
    c=conns[0]; big=b"x"*3_000_000
    c.sendall(req("SET","big",big)); assert read(c,5)==b"+OK\r\n"
    c.sendall(req("GET","big")); time.sleep(.1)
    r=b"$%d\r\n"%len(big)+big+b"\r\n"; assert read(c,len(r))==r
    for c in conns[50:]: c.close()
    conns[1].sendall(b"garbage\r\n"); assert conns[1].recv(10)==b""
    conns[2].sendall(req("INFO","all")); time.sleep(.05); print(conns[2].recv(4096).decode().split("used_memory:0")[1].split())
    print("ok",sys.argv[1:])
finally: p.kill();p.wait()
