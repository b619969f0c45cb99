#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn list(entries: &[&str]) -> AllowList {
    AllowList::read(&entries.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
}

fn check(entries: &[&str], url: &str) -> Result<(), NotAllowed> {
    list(entries).check_url(&Url::parse(url).unwrap())
}

#[test]
fn hosts_ports_and_wildcards() {
    for (entry, url, admitted) in [
        ("shop.example", "https://shop.example/p", true),
        ("shop.example", "http://SHOP.example./p", true),
        ("shop.example", "https://shop.example:8443/", false),
        ("shop.example:8443", "https://shop.example:8443/", true),
        ("shop.example:443", "https://shop.example/", true),
        ("shop.example:*", "http://shop.example:81/", true),
        ("shop.example", "https://evilshop.example/", false),
        ("*.example.com", "https://a.b.example.com/", true),
        ("*.example.com", "https://example.com/", false),
        ("*.example.com", "https://badexample.com/", false),
        ("*.example.com", "https://example.com.evil.test/", false),
        ("*", "https://anything.test/", true),
        ("bücher.example", "https://xn--bcher-kva.example/", true),
        ("127.0.0.1:*", "http://127.0.0.1:9/", true),
        ("127.0.0.1:*", "http://2130706433:9/", true),
        ("127.0.0.1:*", "http://[::ffff:127.0.0.1]:9/", true),
        ("[::1]:8080", "http://[::1]:8080/", true),
        ("[::1]:8080", "http://[::1]:8081/", false),
        ("::1", "http://[0:0::1]/", true),
    ] {
        assert_eq!(check(&[entry], url).is_ok(), admitted, "{entry} {url}");
    }
}

#[test]
fn guarded_addresses_are_refused_unless_listed_themselves() {
    for host in [
        "127.0.0.1",
        "0x7f.1",
        "2130706433",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[fc00::1]",
        "[fe80::1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:7f00:1::]",
        "224.0.0.1",
        "255.255.255.255",
    ] {
        let refusal = check(&["*"], &format!("http://{host}/")).unwrap_err();
        assert!(matches!(refusal, NotAllowed::Guarded { .. }), "{host}: {refusal}");
    }
    assert!(check(&["*"], "http://93.184.216.34/").is_ok());
    assert!(check(&["*"], "http://[2606:2800:220:1::1]/").is_ok());
    assert!(check(&["169.254.169.254"], "http://169.254.169.254/latest").is_ok());
}

#[test]
fn a_name_does_not_grant_the_private_address_it_leads_to() {
    let private: IpAddr = "10.0.3.7".parse().unwrap();
    let refusal = list(&["shop.internal"]).check_address("shop.internal", private).unwrap_err();
    assert!(refusal.to_string().contains("list `10.0.3.7` itself"), "{refusal}");
    assert!(list(&["shop.internal", "10.0.3.7"]).check_address("shop.internal", private).is_ok());
    let loopback: IpAddr = "::1".parse().unwrap();
    assert!(list(&["localhost:*"]).check_address("localhost", loopback).is_ok());
    assert!(list(&["localhost:*"]).check_address("elsewhere.test", loopback).is_err());
    assert!(list(&["localhost:*"]).check_address("localhost", private).is_err());
}

#[test]
fn refusals_name_the_remedy() {
    assert!(check(&[], "http://a.test:81/").unwrap_err().to_string().contains(r#"allow: ["a.test:81"]"#));
    assert!(check(&["b.test"], "http://a.test/").unwrap_err().to_string().contains("(b.test)"));
    assert!(matches!(check(&["*"], "file:///etc/passwd").unwrap_err(), NotAllowed::NotHttp(_)));
    assert!(matches!(check(&["*"], "ftp://a.test/").unwrap_err(), NotAllowed::NotHttp(_)));
}

#[test]
fn entries_that_name_no_host_are_refused() {
    for entry in ["", "http://a.test", "a.test/path", "a.test:http", "a.*.test", "a test", "[::1", "*.*"] {
        assert!(AllowList::read(&[entry.to_owned()]).is_err(), "{entry}");
    }
}
