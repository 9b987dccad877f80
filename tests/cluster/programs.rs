//! Programs that people run: nginx and redis, as the examples say.

use xce_tests::Setup;
use xce_tests::harness::net::{http_get, redis};
use xce_tests::harness::programs;

use super::first_run::address;
use super::rows;

#[test]
fn nginx_serves_from_each_replica() {
    programs::need("nginx");
    let cluster = Setup::new("nginx").start();
    let cli = cluster.cli();
    cli.good(&[
        "services",
        "create",
        "examples/nginx.toml",
        "--wait",
        "--timeout",
        "60s",
    ]);
    let service = cluster.steady("nginx", 2);
    for endpoint in rows(&service, "endpoints") {
        let (status, body) =
            http_get(address(endpoint), "/").unwrap_or_else(|fault| panic!("{fault}"));
        let expected = format!("replica {} of nginx, run 1\n", endpoint["replica"]);
        assert_eq!((status, body), (200, expected));
    }
    assert_eq!(rows(&service, "endpoints").len(), 2);
    cli.good(&["services", "delete", "nginx", "--wait", "--timeout", "60s"]);
    cluster.audit();
}

#[test]
fn redis_answers_and_loses_its_readiness_when_it_hangs() {
    programs::need("redis-server");
    programs::need("redis-cli");
    let cluster = Setup::new("redis").start();
    let cli = cluster.cli();
    cli.good(&[
        "services",
        "create",
        "examples/redis.toml",
        "--wait",
        "--timeout",
        "60s",
    ]);
    let service = cluster.steady("redis", 1);
    let endpoint = address(&rows(&service, "endpoints")[0]);
    assert_eq!(redis(endpoint, "PING").as_deref(), Ok("+PONG"));
    assert_eq!(redis(endpoint, "SET colour green").as_deref(), Ok("+OK"));
    // A server that takes connections and answers nothing is alive and not ready.
    assert_eq!(
        redis(endpoint, "CLIENT PAUSE 8000 ALL").as_deref(),
        Ok("+OK")
    );
    cluster.service("redis", "is not ready while it hangs", |service| {
        service["ready"] == 0 && service["live"] == 1
    });
    let again = cluster.steady("redis", 1);
    assert_eq!(
        super::identities(&again),
        super::identities(&service),
        "nothing was restarted"
    );
    cluster.audit();
}
