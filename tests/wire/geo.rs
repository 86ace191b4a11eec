//! The geo commands.

use harness::{Client, EVERY_ENGINE, Embedded, RedisOracle, check_script, effort, seed};

#[test]
fn members_have_positions() {
    check_script(
        r#"
        GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
        :2
        GEOADD g NX 0 0 Palermo 1 1 new
        :1
        GEOADD g XX CH 2 2 new 3 3 other
        :1
        GEOADD g CH 2 2 new 13.583333 37.316667 Agrigento
        :1
        ZSCORE g Palermo
        $16 | 3479099956230698
        GEODIST g Palermo Catania
        $11 | 166274.1516
        GEODIST g Palermo Catania km
        $8 | 166.2742
        GEODIST g Palermo Catania MI
        $8 | 103.3182
        GEODIST g Palermo Catania Ft
        $11 | 545518.8700
        GEODIST g Palermo Palermo
        $6 | 0.0000
        GEODIST g Palermo missing
        $-1
        GEODIST missing Palermo missing
        $-1
        GEODIST g Palermo Catania x
        -ERR unsupported unit provided. please use M, KM, FT, MI
        GEODIST g Palermo Catania m x
        -ERR syntax error
        GEOHASH g Palermo Catania missing
        *3 | $11 | sqc8b49rny0 | $11 | sqdtr74hyu0 | $-1
        GEOHASH missing a b
        *2 | $-1 | $-1
        GEOHASH g
        *0
        GEOPOS g Palermo missing Catania
        *3 | *2 | $20 | 13.36138933897018433 | $20 | 38.11555639549629859 | *-1 | *2 | $20 | 15.08726745843887329 | $20 | 37.50266842333162032
        GEOPOS missing a
        *1 | *-1
        "#,
    );
    check_script(
        r#"
        GEOADD g 181 0 a
        -ERR invalid longitude,latitude pair 181.000000,0.000000
        GEOADD g 0 -86 a
        -ERR invalid longitude,latitude pair 0.000000,-86.000000
        GEOADD g 0 inf a
        -ERR invalid longitude,latitude pair 0.000000,inf
        GEOADD g x 0 a
        -ERR value is not a valid float
        GEOADD g 0 0
        -ERR wrong number of arguments for 'geoadd' command
        GEOADD g 0 0 a 1
        -ERR syntax error
        GEOADD g NX XX 0 0 a
        -ERR syntax error
        GEOADD g NX CH NX
        -ERR syntax error
        GEOADD g 0 0 a 200 0 b
        -ERR invalid longitude,latitude pair 200.000000,0.000000
        EXISTS g
        :0
        ZADD negative -2 a
        :1
        GEOPOS negative a
        *1 | *2 | $3 | 180 | $19 | 85.0511287799999991
        SET s v
        +OK
        GEOADD s 0 0 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        GEODIST s a b
        -WRONGTYPE Operation against a key holding the wrong kind of value
        GEOPOS s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        GEOHASH s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        GEOSEARCH s FROMMEMBER a BYRADIUS 1 m
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn searches_find_what_is_near() {
    check_script(
        r#"
        GEOADD {t}g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 12.758489 38.788135 edge1 17.241510 38.788135 edge2
        :4
        GEOSEARCH {t}g FROMLONLAT 15 37 BYRADIUS 200 km ASC
        *2 | $7 | Catania | $7 | Palermo
        GEOSEARCH {t}g FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHCOORD WITHDIST
        *4 | *3 | $7 | Catania | $7 | 56.4413 | *2 | $20 | 15.08726745843887329 | $20 | 37.50266842333162032 | *3 | $7 | Palermo | $8 | 190.4424 | *2 | $20 | 13.36138933897018433 | $20 | 38.11555639549629859 | *3 | $5 | edge2 | $8 | 279.7403 | *2 | $20 | 17.24151045083999634 | $20 | 38.78813451624225195 | *3 | $5 | edge1 | $8 | 279.7405 | *2 | $19 | 12.7584877610206604 | $20 | 38.78813451624225195
        GEOSEARCH {t}g FROMMEMBER Palermo BYRADIUS 500 km DESC COUNT 2 WITHHASH
        *2 | *2 | $5 | edge2 | :3481342659049484 | *2 | $7 | Catania | :3479447370796909
        GEORADIUS {t}g 15 37 200 km WITHDIST ASC
        *2 | *2 | $7 | Catania | $7 | 56.4413 | *2 | $7 | Palermo | $8 | 190.4424
        GEORADIUS_RO {t}g 15 37 200 km COUNT 1
        *1 | $7 | Catania
        GEORADIUSBYMEMBER {t}g Palermo 100 km ASC
        *2 | $7 | Palermo | $5 | edge1
        GEORADIUSBYMEMBER_RO {t}g Palermo 100 km DESC
        *2 | $5 | edge1 | $7 | Palermo
        GEORADIUS {t}g 15 37 1 m
        *0
        GEORADIUS {t}missing 15 37 1 m
        *0
        GEORADIUSBYMEMBER {t}missing a x y
        *0
        GEOSEARCH {t}missing FROMMEMBER a BYRADIUS 1 m
        *0
        GEORADIUS {t}g 15 37 200 km STORE {t}d
        :2
        ZRANGE {t}d 0 -1 WITHSCORES
        *4 | $7 | Palermo | $16 | 3479099956230698 | $7 | Catania | $16 | 3479447370796909
        GEOSEARCHSTORE {t}d {t}g FROMLONLAT 15 37 BYBOX 400 400 km ASC COUNT 3
        :3
        ZCARD {t}d
        :3
        GEOSEARCHSTORE {t}d {t}g FROMMEMBER Palermo BYRADIUS 0 m STOREDIST
        :1
        ZRANGE {t}d 0 -1 WITHSCORES
        *2 | $7 | Palermo | $1 | 0
        GEORADIUSBYMEMBER {t}g Palermo 1 km STORE {t}x STOREDIST {t}d
        :1
        ZSCORE {t}d Palermo
        $1 | 0
        EXISTS {t}x
        :0
        GEORADIUS {t}g 100 37 1 m STORE {t}d
        :0
        EXISTS {t}d
        :0
        GEOSEARCHSTORE {t}d {t}missing FROMLONLAT 15 37 BYRADIUS 1 m
        :0
        GEORADIUS {t}g 15 37 200 km STORE STORE ASC
        :2
        ZCARD STORE
        :2
        "#,
    );
}

#[test]
fn searches_find_what_lies_on_the_last_meridian() {
    check_script(
        r#"
        GEOADD g 180 68.74510585111129 last 180 0 equator -180 0 first 179.999 0 near
        :4
        GEOSEARCH g FROMMEMBER last BYBOX 500.5 0 m
        *1 | $4 | last
        GEOSEARCH g FROMLONLAT 180 0 BYRADIUS 1 m
        *1 | $7 | equator
        GEOSEARCH g FROMMEMBER equator BYRADIUS 1 km ASC COUNT 1
        *1 | $7 | equator
        "#,
    );
}

#[test]
fn what_is_wrong_with_a_search_is_said() {
    check_script(
        r#"
        GEOADD {t}g 13.361389 38.115556 Palermo
        :1
        GEORADIUS {t}g 200 37 1 m
        -ERR invalid longitude,latitude pair 200.000000,37.000000
        GEORADIUS {t}g 15 37 x m
        -ERR need numeric radius
        GEORADIUS {t}g 15 37 -1 m
        -ERR radius cannot be negative
        GEORADIUS {t}g 15 37 1 miles
        -ERR unsupported unit provided. please use M, KM, FT, MI
        GEORADIUS {t}g 15 37 1 m BOGUS
        -ERR syntax error
        GEORADIUS {t}g 15 37 1 m COUNT 0
        -ERR COUNT must be > 0
        GEORADIUS {t}g 15 37 1 m COUNT x
        -ERR value is not an integer or out of range
        GEORADIUS {t}g 15 37 1 m COUNT
        -ERR syntax error
        GEORADIUS {t}g 15 37 1 m ANY
        -ERR the ANY argument requires COUNT argument
        GEORADIUS {t}g 15 37 1 m WITHDIST STORE {t}d
        -ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options
        GEORADIUS_RO {t}g 15 37 1 m STORE {t}d
        -ERR syntax error
        GEORADIUSBYMEMBER {t}g missing 1 m
        -ERR could not decode requested zset member
        GEOSEARCH {t}g FROMMEMBER missing BYRADIUS 1 m
        -ERR could not decode requested zset member
        GEOSEARCH {t}g FROMMEMBER Palermo FROMLONLAT 1 1 BYRADIUS 1 m
        -ERR syntax error
        GEOSEARCH {t}g FROMLONLAT 1 1 BYRADIUS 1 m BYBOX 1 1 m
        -ERR syntax error
        GeoSearch {t}g BYRADIUS 1 m ASC ASC ASC
        -ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GeoSearch
        GEOSEARCH {t}g FROMLONLAT 1 1 ASC ASC
        -ERR exactly one of BYRADIUS and BYBOX can be specified for GEOSEARCH
        GEOSEARCH {t}g FROMLONLAT 1 1 BYBOX x 1 m
        -ERR need numeric width
        GEOSEARCH {t}g FROMLONLAT 1 1 BYBOX 1 x m
        -ERR need numeric height
        GEOSEARCH {t}g FROMLONLAT 1 1 BYBOX 1 -1 m
        -ERR height or width cannot be negative
        GEOSEARCHSTORE {t}d {t}g FROMLONLAT 1 1 BYRADIUS 1 m WITHDIST
        -ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options
        GEOSEARCH {t}g FROMLONLAT 1 1 BYRADIUS 1 m STOREDIST
        -ERR syntax error
        "#,
    );
}

/// Random points and searches, on every engine and on redis-server.
#[test]
fn random_searches_find_what_redis_finds() {
    let mut random = fastrand::Rng::with_seed(seed());
    let mut requests: Vec<Vec<String>> = Vec::new();
    let spread = |random: &mut fastrand::Rng, most: f64| format!("{:.6}", (random.f64() * 2.0 - 1.0) * most);
    for n in 0..300 {
        // Half of the points are close together.
        let most = if n % 2 == 0 { (180.0, 85.0) } else { (2.0, 2.0) };
        let (longitude, latitude) = (spread(&mut random, most.0), spread(&mut random, most.1));
        requests.push(["GEOADD", "g", &longitude, &latitude, &format!("m{n}")].map(String::from).to_vec());
    }
    for _ in 0..effort("GEO_SEARCHES", 200) {
        let most = if random.bool() { (180.0, 85.0) } else { (2.0, 2.0) };
        let (longitude, latitude) = (spread(&mut random, most.0), spread(&mut random, most.1));
        let size = |random: &mut fastrand::Rng| format!("{:.3}", 10_f64.powf(random.f64() * 4.5));
        let mut request = ["GEOSEARCH", "g", "FROMLONLAT", &longitude, &latitude].map(String::from).to_vec();
        if random.bool() {
            request.extend(["BYRADIUS".into(), size(&mut random), "km".into()]);
        } else {
            request.extend(["BYBOX".into(), size(&mut random), size(&mut random), "km".into()]);
        }
        request.extend(["WITHDIST", "WITHHASH", "WITHCOORD"].map(String::from));
        match random.u32(..4) {
            0 => request.push("ASC".into()),
            1 => request.push("DESC".into()),
            2 => request.extend(["COUNT", "3"].map(String::from)),
            _ => request.extend(["COUNT", "5", "ANY"].map(String::from)),
        }
        requests.push(request);
    }
    let oracle = RedisOracle::start();
    let replies = |client: &mut Client| client.pipeline(&requests);
    let wanted = replies(&mut oracle.client());
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &[]);
        for (request, (got, wanted)) in requests.iter().zip(replies(&mut server.client()).iter().zip(&wanted)) {
            assert_eq!(got, wanted, "{setup:?}: {request:?}");
        }
    }
}
