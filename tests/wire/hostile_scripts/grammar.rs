//! A grammar of hostile scripts. In its rules a hole is a `$` and a letter, which names the rule that fills it:
//!
//! | | |
//! |---|---|
//! | `$S` | statements |
//! | `$V` | any value; `$N` a number, `$K` a size, `$T` a text, `$Q` a text that is a program, `$B` a table, `$F` a function, `$G` a table that outlives scripts |
//! | `$P` | a pattern; `$L` a format of `string`, `$U` one of `struct` |
//! | `$R` | the arguments of a command that reads, or of none; `$W` of one that writes |

/// A script and the command that runs it.
pub struct Script {
    pub command: &'static str,
    pub source: String,
}

/// The script of this seed. One that writes is no endless one: nobody could end it.
pub fn script(seed: u64) -> Script {
    let mut random = fastrand::Rng::with_seed(seed);
    let is_writing = random.u32(..10) < 3;
    let command = if random.u32(..10) == 0 { "EVAL_RO" } else { "EVAL" };
    let mut grammar = Grammar { random, is_writing, depth: 0 };
    let source = format!("{PRELUDE}{}; {}", grammar.statements(), grammar.filled(&END));
    Script { command, source }
}

const PRELUDE: &str = "\
local function list(n) local t = {} for i = 1, n do t[i] = i % 7 end return t end
local function deep(n) local t = {} for i = 1, n do t = {t} end return t end
local function looped() local t = {} t[1], t.t = t, t return t end
";

const END: [&str; 8] = [
    "return $V",
    "return $B",
    "error($V)",
    "return redis.pcall($R)",
    "return unpack($B, $N, $N)",
    "return {$V, $V, $V}",
    "local x = ('x'):rep(1e5) local t = {} for i = 1, $K do t[i] = x end return t",
    "return 1",
];

/// Rules without holes, for holes within holes within holes.
const DEPTH_MAX: usize = 5;

struct Grammar {
    random: fastrand::Rng,
    is_writing: bool,
    depth: usize,
}

impl Grammar {
    fn statements(&mut self) -> String {
        let all: Vec<String> = (0..self.random.usize(1..4)).map(|_| self.statement()).collect();
        all.join("; ")
    }

    fn statement(&mut self) -> String {
        let kind = self.random.u32(..10);
        let statement = match kind {
            _ if self.depth >= DEPTH_MAX => self.filled(&SHORT),
            0..3 if self.is_writing => self.filled(&["redis.call($W)", "redis.pcall($W)"]),
            _ if self.is_writing => self.filled(&BOUNDED),
            0..5 => self.filled(&BOUNDED),
            _ => self.filled(&UNBOUNDED),
        };
        // What follows a failure runs all the same.
        if self.random.bool() { format!("pcall(function() {statement} end)") } else { statement }
    }

    /// One of these rules with its holes filled.
    fn filled(&mut self, rules: &[&str]) -> String {
        let rule = rules[self.random.usize(..rules.len())];
        self.depth += 1;
        let mut pieces = rule.split('$');
        let mut text = pieces.next().expect("a rule begins with what is before its first hole").to_owned();
        for piece in pieces {
            let (hole, rest) = piece.split_at(1);
            text += &self.piece(hole);
            text += rest;
        }
        self.depth -= 1;
        text
    }

    fn piece(&mut self, hole: &str) -> String {
        let is_short = self.depth > DEPTH_MAX;
        let rules: &[&str] = match hole {
            "S" => return self.statements(),
            "Q" => return quoted(&self.statements()),
            "N" => &NUMBERS,
            "K" if self.is_writing => &["1", "3", "300", "1e4"],
            "K" => &["1", "3", "20", "300", "7000", "1e5", "1e6"],
            "T" => of(&TEXTS, is_short),
            "B" => of(&TABLES, is_short),
            "F" if self.is_writing => of(&FUNCTIONS, true),
            "F" => of(&FUNCTIONS, is_short),
            "V" => of(&VALUES, is_short),
            "G" => &SHOWN,
            "P" => of(&PATTERNS, is_short),
            "L" => &FORMATS,
            "U" => &STRUCTS,
            "R" => &READS,
            "W" => &WRITES,
            other => panic!("no rule fills the hole {other}"),
        };
        self.filled(rules)
    }
}

/// Rules, the first of which have no holes that could hold more of the same.
struct Rules {
    all: &'static [&'static str],
    short: usize,
}

fn of(rules: &Rules, is_short: bool) -> &'static [&'static str] {
    if is_short { &rules.all[..rules.short] } else { rules.all }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n"))
}

const SHORT: [&str; 5] = ["x = 1", "error('x')", "redis.pcall('ping')", "local x = 1", "coroutine.yield()"];

const NUMBERS: [&str; 24] = [
    "0", "1", "-1", "2", "0.5", "-0", "255", "256", "65536", "1e5", "1e6", "1e9", "2^31-1", "2^31", "-2^31", "2^32",
    "2^53", "2^63", "-2^63", "1e308", "1/0", "-1/0", "0/0", "'7'",
];

const TEXTS: Rules = Rules {
    short: 8,
    all: &[
        "''",
        "'x'",
        "'\\0'",
        "'\\27LuaQ'",
        "'\\255\\254\\128'",
        "'[1,{\"a\":null}]'",
        "'k1'",
        "ARGV[1]",
        "tostring($V)",
        "('x'):rep($K)",
        "('[{(\"'):rep($K)",
        "('%s\\145'):rep($K)",
        "($T .. $T)",
        "cmsgpack.pack($N, $T)",
        "select(2, pcall(cjson.encode, $B))",
    ],
};

const TABLES: Rules = Rules {
    short: 5,
    all: &[
        "{}",
        "{3, 1, 2, 'x'}",
        "KEYS",
        "looped()",
        "{a = {b = {}}, [1.5] = 1}",
        "list($K)",
        "deep($K)",
        "{$V, $V}",
        "{err = $V}",
        "{ok = $V}",
        "{map = $B}",
        "{set = $B}",
        "{double = $N}",
        "{big_number = $T}",
        "{verbatim_string = {format = $T, string = $T}}",
        "setmetatable({}, {__index = $F, __newindex = $F, __tostring = $F, __concat = $F, __call = $F})",
        "setmetatable({}, {__eq = $F, __lt = $F, __len = $F, __gc = $F, __mode = 'kv'})",
        "setmetatable(list(9), {__index = looped()})",
    ],
};

const FUNCTIONS: Rules = Rules {
    short: 11,
    all: &[
        "function() end",
        "function(...) return ... end",
        "function() error('x') end",
        "function() return true end",
        "function() return math.random() < 0.5 end",
        "error",
        "tostring",
        "pcall",
        "setmetatable",
        "coroutine.yield",
        "redis.pcall",
        "function() $S end",
        "function() while true do end end",
        "coroutine.wrap(function() $S end)",
        "loadstring($Q)",
    ],
};

const VALUES: Rules = Rules {
    short: 5,
    all: &[
        "nil",
        "true",
        "0/0",
        "'x'",
        "{}",
        "$N",
        "$T",
        "$B",
        "$F",
        "$G",
        "coroutine.create(function() end)",
        "coroutine.running()",
    ],
};

const SHOWN: [&str; 12] = [
    "_G",
    "string",
    "table",
    "math",
    "redis",
    "cjson",
    "coroutine",
    "getmetatable('')",
    "getmetatable('').__index",
    "getmetatable(_G)",
    "getfenv(0)",
    "getfenv(1)",
];

const PATTERNS: Rules = Rules {
    short: 8,
    all: &[
        "'.'",
        "'(.-)%1'",
        "'%b()'",
        "'%f[%w]'",
        "'['",
        "'%'",
        "'(()'",
        "'(a*)*b'",
        "('a?'):rep($K) .. 'b'",
        "('('):rep($K)",
        "('(.-)'):rep(31)",
        "('.-'):rep(12) .. 'b'",
        "'^' .. $T",
        "'[' .. ('a'):rep($K) .. ']'",
        "$T",
    ],
};

const FORMATS: [&str; 10] = [
    "'%d'",
    "'%99999d'",
    "'%5.99f'",
    "'%.99999s'",
    "'%q'",
    "'%c%s%i%u%x%g%e%o'",
    "'%'",
    "'%*d'",
    "('%s'):rep($K)",
    "$T",
];

const STRUCTS: [&str; 9] = [
    "'>I8'",
    "'<i4 I2 c0'",
    "('I32'):rep($K)",
    "'!1073741824d'",
    "'c2147483647'",
    "'I4c0'",
    "'s'",
    "'bBhHlLTfdx'",
    "$T",
];

const READS: [&str; 19] = [
    "'get', $V",
    "'mget', unpack(list($K))",
    "'lrange', 'k2', $N, $N",
    "'getrange', 'k7', $N, $N",
    "'hgetall', 'k3'",
    "'zrangebyscore', 'k4', $V, $V",
    "'smembers', 'k5'",
    "'xrange', 'k6', '-', '+'",
    "'scan', $V",
    "'keys', $T",
    "'sort_ro', 'k2', 'by', $T",
    "'bitcount', 'k7', $N, $N",
    "'echo', $T",
    "'eval', 'return 1', 0",
    "'subscribe', 'x'",
    "'select', $N",
    "$V",
    "$V, $V",
    "unpack($B)",
];

const WRITES: [&str; 17] = [
    "'set', $V, $V",
    "'append', 'a', $T",
    "'setrange', 'r', $N, $T",
    "'incrby', 'n', $N",
    "'incrbyfloat', 'n', $N",
    "'rpush', 'l', unpack(list(300))",
    "'lset', 'k2', $N, $V",
    "'hset', 'h', $V, $V",
    "'zadd', 'z', $N, $V",
    "'xadd', 'x', $V, $V, $V",
    "'mset', $V, $V, $V, $V",
    "'del', $V",
    "'rename', $V, $V",
    "'expire', $V, $N",
    "'restore', $V, $N, $T",
    "'sort', 'k2', 'store', $V",
    "'publish', $V, $V",
];

/// Statements that end by themselves before long.
const BOUNDED: [&str; 76] = [
    "local x = unpack($B, $N, $N)",
    "local x = {unpack($B, $N, $N)}",
    "local x = select($N, unpack(list(100)))",
    "local x = select('#', unpack({}, $N, $N))",
    "setmetatable($G, $B)",
    "getmetatable($G).__index = $V",
    "getmetatable('').__add = $F",
    "rawset($G, $V, $V)",
    "rawset($B, $V, $V)",
    "local g = $G g.x = $V",
    "x = $V",
    "_G.y = $V",
    "string = $V",
    "string.rep = $F",
    "redis.call = $F",
    "KEYS = $V",
    "KEYS[$N] = $V",
    "ARGV[1] = $V",
    "table.insert($G, $V)",
    "next($G, $V)",
    "next($B, $V)",
    "setfenv($N, $B)",
    "setfenv($F, $G)",
    "setfenv(1, setmetatable({}, {__index = _G}))",
    "getfenv($N).x = $V",
    "getfenv($F).y = $V",
    "setmetatable({}, {__gc = $F, __mode = 'kv'}) collectgarbage()",
    "collectgarbage($T, $N)",
    "collectgarbage('stop')",
    "collectgarbage('setpause', $N)",
    "string.format($L, $V, $V)",
    "local x = $T .. $V",
    "string.sub($T, $N, $N)",
    "string.byte($T, $N, $N)",
    "string.char($N, $N)",
    "tonumber($T, $N)",
    "table.concat($B, $T, $N, $N)",
    "table.insert($B, $N, $V)",
    "table.remove($B, $N)",
    "table.maxn($B)",
    "math.random($N, $N)",
    "math.randomseed($N)",
    "local x = math.fmod($N, $N) % $N",
    "cjson.encode($V)",
    "cjson.decode($T)",
    "cjson.decode(('['):rep($K))",
    "cjson.encode_max_depth($N)",
    "cjson.decode_max_depth($N)",
    "cjson.encode_sparse_array($V, $N, $N)",
    "cjson.encode_number_precision($N)",
    "cmsgpack.pack($V, $V)",
    "cmsgpack.unpack($T)",
    "cmsgpack.unpack(('\\145'):rep($K))",
    "cmsgpack.unpack('\\221\\255\\255\\255\\255')",
    "cmsgpack.unpack_limit($T, $N, $N)",
    "struct.pack($U, $V, $V)",
    "struct.unpack($U, $T, $N)",
    "struct.size($U)",
    "bit.lshift($N, $N)",
    "bit.tohex($N, $N)",
    "bit.bnot($V)",
    "redis.call($R)",
    "redis.pcall($R)",
    "redis.log(redis.LOG_DEBUG, $V)",
    "redis.sha1hex($V)",
    "redis.error_reply($V)",
    "redis.status_reply($V)",
    "redis.setresp(3)",
    "redis.setresp($N)",
    "redis.set_repl($V)",
    "redis.acl_check_cmd($R)",
    "redis.register_function('f', $F)",
    "redis.breakpoint()",
    "error($V)",
    "assert($V, $V)",
    "loadstring(string.dump($F))()",
];

/// Statements that may never end, take all memory, or call themselves.
const UNBOUNDED: [&str; 51] = [
    "while true do $S end",
    "repeat $S until false",
    "for i = 1, $N do $S end",
    "for _ in function() return 1 end do $S end",
    "for k, v in pairs($B) do $S end",
    "local s = $T for i = 1, $K do s = s .. s end",
    "local s = $T while true do s = s .. s .. 'x' end",
    "local x = string.rep($T, $N)",
    "local t = {} for i = 1, $N do t[i] = $V end",
    "local t = {} while true do t = {t, $V} end",
    "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
    "local function f(...) return 1 + f(...) end f($V)",
    "local function f(...) return pcall(f, ...) end f($V)",
    "local function f() return string.gsub('x', 'x', f) end f()",
    "local function f() return table.sort({2, 1}, f) end f()",
    "local function f() return coroutine.wrap(f)() end f()",
    "local function f() return xpcall(f, f) end f()",
    "local function f() return tostring(setmetatable({}, {__tostring = f})) end f()",
    "local t = setmetatable({}, {}) getmetatable(t).__index = t local x = t.x",
    "local t = setmetatable({}, {__index = function(t, k) return t[k .. 'x'] end}) local x = t.x",
    "while true do pcall(function() $S end) end",
    "while true do pcall(function() while true do end end) end",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "xpcall(function() $S end, function(e) $S end)",
    "xpcall(function() $S end, $F)",
    "local ok, e = pcall(function() $S end) if not ok then error(e) end",
    "pcall(pcall, pcall, $F)",
    "pcall(error, setmetatable({}, {__index = $F, __tostring = $F}))",
    "pcall(string.gsub, 'x', '.', function() $S end)",
    "coroutine.wrap(function() $S end)()",
    "local c = coroutine.create(function() $S; coroutine.yield($V) $S end) for i = 1, 4 do coroutine.resume(c, $V) end",
    "local c = coroutine.wrap(function() pcall(function() coroutine.yield() $S end) end) c() c()",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "local c c = coroutine.create(function() return coroutine.resume(c) end) coroutine.resume(c)",
    "local c = {} for i = 1, $K do c[i] = coroutine.create($F) coroutine.resume(c[i]) end",
    "string.find($T, $P)",
    "for a in string.gmatch($T, $P) do $S end",
    "string.gsub($T, $P, $V)",
    "string.gsub($T, '.', function() $S end)",
    "string.gsub(('a'):rep(1e6), 'a', ('b'):rep(1e6))",
    "table.sort(list($K), $F)",
    "table.sort(list($K), function() $S return true end)",
    "local t = list($K) table.sort(t, function() t[#t + 1] = 1 return true end)",
    "loadstring($Q)()",
    "setfenv(loadstring($Q), $B)()",
    "load(function() return $T end)",
    "load(function() $S end)",
    "loadstring(('('):rep($K))",
    "loadstring('return ' .. ('{'):rep($K))",
    "loadstring(('x='):rep($K) .. '1')",
    "loadstring('f(' .. ('a,'):rep($K) .. 'a)')",
];
