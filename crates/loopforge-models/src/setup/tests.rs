#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn made(setup: &Setup, variables: &[(&str, &str)]) -> Result<Provider, String> {
    let environment = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let (provider, model) = setup.name.split_once('/').unwrap();
    over_http(setup, provider, model, &environment)
}

fn address(setup: &Setup, variables: &[(&str, &str)]) -> String {
    made(setup, variables).unwrap().description.address
}

#[test]
fn names_lead_to_the_usual_addresses() {
    let key = [("OPENAI_API_KEY", "sk-12345678"), ("ANTHROPIC_API_KEY", "sk-12345678")];
    assert_eq!(address(&Setup::named("openai/gpt-x"), &key), "https://api.openai.com/v1/chat/completions");
    assert_eq!(address(&Setup::named("openai-responses/gpt-x"), &key), "https://api.openai.com/v1/responses");
    assert_eq!(address(&Setup::named("anthropic/claude-x"), &key), "https://api.anthropic.com/v1/messages");
    assert_eq!(address(&Setup::named("ollama/qwen"), &[]), "http://127.0.0.1:11434/v1/chat/completions");
    let models = made(&Setup::named("openrouter/some/model"), &[("OPENROUTER_API_KEY", "k-12345678")]).unwrap();
    assert_eq!(models.options.model, "some/model");
}

#[test]
fn other_servers_are_named_by_address() {
    let at = |name: &str, base: &str| {
        address(&Setup { base_url: Some(base.to_owned()), ..Setup::named(name) }, &[("PORT", "8080")])
    };
    assert_eq!(at("local/qwen", "http://127.0.0.1:${env.PORT}/v1/"), "http://127.0.0.1:8080/v1/chat/completions");
    assert_eq!(at("openai/q", "http://h/v1/chat/completions"), "http://h/v1/chat/completions");
    assert_eq!(at("anthropic/q", "http://h"), "http://h/v1/messages");
    assert_eq!(at("anthropic/q", "http://h/v1"), "http://h/v1/messages");
    assert_eq!(at("anthropic/q", "http://h/anthropic/v1/messages"), "http://h/anthropic/v1/messages");
    assert_eq!(at("openai/q", "http://me:secret@h/v1?key=1"), "http://h/v1/chat/completions");
    let by_variable = address(&Setup::named("my-server/q"), &[("MY_SERVER_BASE_URL", "http://h/v1")]);
    assert_eq!(by_variable, "http://h/v1/chat/completions");
    let api = Setup { api: Some(Api::Messages), base_url: Some("http://h".to_owned()), ..Setup::named("local/q") };
    assert_eq!(address(&api, &[]), "http://h/v1/messages");
}

#[test]
fn a_key_goes_only_where_it_belongs() {
    let key = [("OPENAI_API_KEY", "sk-12345678"), ("OTHER", "other-12345678"), ("OPENAI_BASE_URL", "http://proxy/v1")];
    let sent = |setup: &Setup, variables: &[(&str, &str)]| format!("{:?}", made(setup, variables).unwrap().endpoint);
    let elsewhere = Setup { base_url: Some("http://elsewhere/v1".to_owned()), ..Setup::named("openai/x") };
    assert!(sent(&elsewhere, &key).contains("key: None"));
    let named = Setup { api_key_env: Some("OTHER".to_owned()), ..elsewhere };
    assert!(sent(&named, &key).contains("Secret(from OTHER)"));
    // Who sets the address in the environment sets the key there, too.
    assert!(sent(&Setup::named("openai/x"), &key).contains("Secret(from OPENAI_API_KEY)"));
    let usual = Setup { base_url: Some("https://api.openai.com/v1".to_owned()), ..Setup::named("openai/x") };
    assert!(sent(&usual, &key).contains("Secret(from OPENAI_API_KEY)"));
    for text in [sent(&named, &key), sent(&usual, &key)] {
        assert!(!text.contains("12345678"), "{text}");
    }
}

#[test]
fn what_is_wrong_is_said_with_the_remedy() {
    let problem = |setup: &Setup, variables: &[(&str, &str)]| made(setup, variables).unwrap_err();
    assert!(problem(&Setup::named("openai/x"), &[]).contains("set OPENAI_API_KEY"));
    assert!(problem(&Setup::named("openai/x"), &[("OPENAI_API_KEY", " ")]).contains("set OPENAI_API_KEY"));
    let missing = Setup { api_key_env: Some("MINE".to_owned()), ..Setup::named("openai/x") };
    assert!(problem(&missing, &[("OPENAI_API_KEY", "sk-12345678")]).contains("set MINE"));
    assert!(problem(&Setup::named("nobody/x"), &[]).contains("set NOBODY_BASE_URL"));
    let base = |text: &str| Setup { base_url: Some(text.to_owned()), ..Setup::named("local/x") };
    assert!(problem(&base("${env.NOT_SET}/v1"), &[]).contains("set NOT_SET"));
    assert!(problem(&base("${inputs.x}"), &[]).contains("only `${env.NAME}`"));
    assert!(problem(&base("localhost:80"), &[]).contains("http://"));
    assert!(problem(&base("nonsense"), &[]).contains("base_url"));
    let header = Setup { headers: BTreeMap::from([("a b".to_owned(), "c".to_owned())]), ..base("http://h") };
    assert!(problem(&header, &[]).contains("header"));
    let error = build_with(&Setup::named("openai"), Path::new("."), &|_| None).unwrap_err();
    assert!(error.to_string().starts_with("model `openai`: not a name of a model"), "{error}");
}
