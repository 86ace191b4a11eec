//! How random scripts are called: by EVAL, by their SHA1, and as functions of random libraries; alone, after WATCH and
//! in transactions; between the commands about scripts and libraries.

use super::Request;
use super::scripts::{DEADLINE_S, KEYS, Maker};
use harness::RedisOracle;
use harness::generator::requests::{Check, Step, Unit};
use sha1::{Digest, Sha1};

/// Names of libraries and functions: so few that they replace each other and collide.
const LIBRARIES: [&str; 3] = ["lib1", "lib2", "Lib3"];
const FUNCTIONS: [&str; 6] = ["f1", "f2", "f3", "f4", "F4", "f5"];
/// Scripts that are remembered for EVALSHA: fewer than a server that forgets some keeps.
const RECENT_MAX: usize = 16;
/// Results of FUNCTION DUMP for a run.
const PAYLOADS: usize = 12;

/// What redis-server dumps of random libraries.
pub fn payloads(maker: &mut Maker) -> Vec<Vec<u8>> {
    let oracle = RedisOracle::start();
    let mut client = oracle.client();
    let mut payload = |_| {
        client.expect("FUNCTION FLUSH", "+OK\r\n");
        for _ in 0..maker.random.u8(1..4) {
            client.call(&maker.load());
        }
        client.value(&["FUNCTION", "DUMP"]).bytes().to_vec()
    };
    (0..PAYLOADS).map(&mut payload).collect()
}

fn words(words: &[&str]) -> Request {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

impl Maker {
    /// What is sent together: a request, or a transaction.
    pub fn unit(&mut self, link: usize) -> Unit {
        let requests = if self.one_in(8) { self.transaction() } else { vec![self.request()] };
        let steps = requests.into_iter().map(|request| Step { request, check: Check::Agrees });
        Unit { link, steps: steps.collect() }
    }

    fn one_in(&mut self, count: u8) -> bool {
        self.random.u8(..count) == 0
    }

    /// Any request that is no transaction.
    fn request(&mut self) -> Request {
        match self.random.u8(..40) {
            26..39 if !self.makes_libraries => self.eval(),
            0..21 => self.eval(),
            21..24 => self.evalsha(),
            24..26 => self.about_scripts(),
            26..34 => self.fcall(),
            34..37 => self.load(),
            37..39 => self.about_libraries(),
            _ => self.plain(),
        }
    }

    /// A transaction, with a key watched before or not, executed, given up, or refused.
    fn transaction(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        if self.one_in(3) {
            requests.push(words(&["WATCH", self.of(&KEYS)]));
            if self.random.bool() {
                requests.push(self.request());
            }
        }
        requests.push(words(&["MULTI"]));
        for _ in 0..self.random.u8(..6) {
            requests.push(match self.random.u8(..20) {
                0..5 => self.plain(),
                5 => self.refused(),
                _ => self.request(),
            });
        }
        requests.push(words(&[if self.one_in(8) { "DISCARD" } else { "EXEC" }]));
        requests
    }

    /// A command that shows which database is selected, and changes it seldom.
    fn plain(&mut self) -> Request {
        let (key, number) = (self.of(&KEYS), self.random.u8(..3).to_string());
        match self.random.u8(..12) {
            0..3 => words(&["DBSIZE"]),
            3..6 => words(&["SET", key, &number]),
            6..9 => words(&["TYPE", key]),
            9..11 => words(&["DEL", key]),
            _ => words(&["SELECT", &number]),
        }
    }

    /// What is not even queued.
    fn refused(&mut self) -> Request {
        let lines =
            ["EVAL x", "EVALSHA", "NOSUCH", "FCALL f1", "FUNCTION", "FUNCTION NOSUCH", "SCRIPT LOAD", "SCRIPT x y"];
        harness::words(self.of(&lines))
    }

    fn eval(&mut self) -> Request {
        let (script, declared) = self.whole_script();
        let name = if self.one_in(8) { "EVAL_RO" } else { "EVAL" };
        self.call(name, &script, &declared)
    }

    fn evalsha(&mut self) -> Request {
        // This one is perhaps never loaded.
        if self.recent.is_empty() || self.one_in(8) {
            self.whole_script();
        }
        let (script, declared) = self.recent[self.random.usize(..self.recent.len())].clone();
        let name = if self.one_in(8) { "EVALSHA_RO" } else { "EVALSHA" };
        let sha = match self.random.u8(..12) {
            0 => self.of(&["", "x", "0123456789012345678901234567890123456789"]).to_owned(),
            1 => sha_of(&script).to_uppercase(),
            _ => sha_of(&script),
        };
        self.call(name, &sha, &declared)
    }

    /// A script as it is sent: seldom Lua cannot read it, and sometimes it declares flags.
    fn whole_script(&mut self) -> (String, Vec<&'static str>) {
        let (mut script, declared) = self.script();
        if self.one_in(30) {
            script.push_str(self.of(&[" (", " end", " x", "\""]));
        }
        if self.one_in(6) {
            script = format!("#!{}\n{script}", self.first_line());
        }
        self.recent.push_front((script.clone(), declared.clone()));
        self.recent.truncate(RECENT_MAX);
        (script, declared)
    }

    fn first_line(&mut self) -> String {
        let flags = ["no-writes", "no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];
        match self.random.u8(..12) {
            0 => self
                .of(&["", "lu", "lua flags=x", "lua x=y", "lua flags=no-writes flags=no-writes", "lua name=x"])
                .into(),
            1 | 2 => "lua".into(),
            3 => "lua flags=".into(),
            4..10 => format!("lua flags={}", self.of(&flags)),
            _ => format!("lua flags={},{}", self.of(&flags), self.of(&flags)),
        }
    }

    /// A call with these keys, and an argument more often than not.
    fn call(&mut self, name: &str, what: &str, keys: &[&str]) -> Request {
        let count = match self.one_in(50) {
            true => self.of(&["-1", "x", "", "9", "1.0", "9223372036854775808"]).to_owned(),
            false => keys.len().to_string(),
        };
        let arguments: &[&str] = if self.one_in(4) { &[] } else { &[DEADLINE_S] };
        words(&[&[name, what, &count], keys, arguments].concat())
    }

    fn about_scripts(&mut self) -> Request {
        let sha = self.recent.front().map_or_else(String::new, |(script, _)| sha_of(script));
        match self.random.u8(..20) {
            0..10 => words(&["SCRIPT", "LOAD", &self.whole_script().0]),
            10..17 => words(&["SCRIPT", "EXISTS", &sha, "x", &sha]),
            17 => words(&["SCRIPT", "FLUSH"]),
            18 => words(&["SCRIPT", "FLUSH", self.of(&["sync", "ASYNC", "x"])]),
            _ => words(&["SCRIPT", "KILL"]),
        }
    }

    fn fcall(&mut self) -> Request {
        let name = if self.one_in(4) { "FCALL_RO" } else { "FCALL" };
        let function = if self.one_in(30) { "nosuch" } else { self.of(&FUNCTIONS) };
        let count = self.random.usize(..5);
        let keys: Vec<&str> = (0..count).map(|_| self.of(&KEYS)).collect();
        self.call(name, function, &keys)
    }

    /// FUNCTION LOAD of a random library.
    pub fn load(&mut self) -> Request {
        let library = self.library();
        match self.random.u8(..12) {
            0..6 => words(&["FUNCTION", "LOAD", "REPLACE", &library]),
            6 => words(&["function", "load", "replace", &library]),
            7 => words(&["FUNCTION", "LOAD", self.of(&["x", "REPLACE", "WITHCODE"]), "REPLACE", &library]),
            _ => words(&["FUNCTION", "LOAD", &library]),
        }
    }

    fn library(&mut self) -> String {
        let name = self.of(&LIBRARIES);
        let first_line = match self.one_in(15) {
            true => self
                .of(&["", "#!lua", "#!lua name=a-b", "#!lua name=x name=y", "#!lua name=x y=z", "#!js name=x"])
                .into(),
            false => format!("#!lua name={name}"),
        };
        let mut lines = vec![first_line];
        let names = [self.of(&FUNCTIONS), self.of(&FUNCTIONS)];
        // Which of two that differ in case alone is called depends on the order of a hash table: see `differences`.
        let is_one = names[0] != names[1] && names[0].eq_ignore_ascii_case(names[1]) || self.random.bool();
        for name in &names[..if is_one { 1 } else { 2 }] {
            lines.push(self.function(name));
        }
        if self.one_in(15) {
            lines.push(self.at_load());
        }
        lines.join("\n")
    }

    /// The registration of a function.
    fn function(&mut self, name: &str) -> String {
        let (body, _) = self.script();
        let callback = format!("function(KEYS, ARGV)\n {body}\nend");
        let flags = match self.random.u8(..10) {
            0..3 => return format!("redis.register_function('{name}', {callback})"),
            3..7 => "'no-writes'",
            7 => "'no-writes', 'allow-stale'",
            8 => self.of(&["'allow-oom'", "'no-cluster'", "'allow-cross-slot-keys'", "'x'", "1"]),
            _ => "",
        };
        let about = if self.one_in(3) { format!(", description={}", self.text()) } else { String::new() };
        format!("redis.register_function{{function_name='{name}', callback={callback}, flags={{{flags}}}{about}}}")
    }

    /// A line that runs while the library is loaded.
    fn at_load(&mut self) -> String {
        let lines = [
            "local count = 0",
            "x = 1",
            "error('x')",
            "error({err='x'})",
            "return redis.call('ping')",
            "return (",
            "redis.register_function('a b', function() end)",
            "redis.register_function('f1')",
            "redis.register_function{function_name='f1'}",
            "return nosuch",
            "return {1, 'x'}",
        ];
        self.of(&lines).to_owned()
    }

    fn about_libraries(&mut self) -> Request {
        let name = self.of(&["lib1", "lib2", "Lib3", "lib3", "nosuch"]);
        match self.random.u8(..40) {
            0..5 => words(&["FUNCTION", "LIST"]),
            5..10 => words(&["FUNCTION", "LIST", "WITHCODE"]),
            10..13 => words(&["FUNCTION", "LIST", "LIBRARYNAME", self.of(&["lib*", "L*", "*3", "[lx]ib?", "lib1"])]),
            13 => words(&["FUNCTION", "LIST", self.of(&["x", "LIBRARYNAME", "WITHCODE"]), self.of(&["WITHCODE", "x"])]),
            14..20 => words(&["FUNCTION", "DELETE", name]),
            20 => words(&["FUNCTION", "FLUSH"]),
            21 => words(&["FUNCTION", "FLUSH", self.of(&["sync", "ASYNC", "x"])]),
            22..25 => words(&["FUNCTION", "DUMP"]),
            25..36 => self.restore(),
            36..39 => words(&["FUNCTION", "STATS"]),
            _ => words(&["FUNCTION", "KILL"]),
        }
    }

    fn restore(&mut self) -> Request {
        // There are none while they are made.
        let count = self.payloads.len().max(1);
        let mut payload = self.payloads.get(self.random.usize(..count)).cloned().unwrap_or_default();
        if self.one_in(8) && !payload.is_empty() {
            let at = self.random.usize(..payload.len());
            payload[at] ^= 1;
        }
        let mut request = words(&["FUNCTION", "RESTORE"]);
        request.push(payload);
        if !self.one_in(4) {
            request.extend(words(&[self.of(&["REPLACE", "REPLACE", "append", "FLUSH", "x"])]));
        }
        request
    }
}

/// The name of a script.
fn sha_of(script: &str) -> String {
    Sha1::digest(script).iter().map(|byte| format!("{byte:02x}")).collect()
}
