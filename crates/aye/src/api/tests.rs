use super::*;
use crate::home::Home;
use crate::hub::Clock;

/// Who may call what, in full: a change here is a change of the contract.
#[tokio::test]
async fn the_table_of_calls_is_the_one_agreed_on() {
    let dir = crate::hub::new_home();
    let hub = Hub::open(&Home::at(dir.path()), Clock::system()).await.unwrap();
    let hosts = AllowedHosts::default();
    let app =
        App::new(hub, hosts, "http://127.0.0.1:7177".into(), CancellationToken::new(), TaskTracker::new());
    let (_, description) = table(&app).finish();
    let mut lines = Vec::new();
    for (path, operations) in description.0["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let who = operation["description"].as_str().unwrap();
            let who = who.trim_start_matches("Who: ").trim_end_matches('.');
            lines.push(format!("{method:<6} {path:<36} {who}"));
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    get    /api/health                          anybody
    get    /api/openapi.json                    viewer
    get    /api/me                              any token
    get    /api/asks                            viewer
    post   /api/asks                            agent
    get    /api/history                         viewer
    get    /api/asks/{id}                       viewer
    post   /api/asks/{id}/answer                operator
    get    /api/alarms                          viewer
    post   /api/asks/{id}/seen                  operator
    get    /api/asks/{id}/resolution            agent
    post   /api/asks/{id}/receipt               agent
    post   /api/asks/{id}/late                  agent
    put    /api/asks/{id}/can                   agent
    post   /api/asks/{id}/withdraw              agent
    get    /api/agents                          viewer
    post   /api/agents                          operator
    get    /api/projects                        viewer
    get    /api/agents/{id}                     viewer
    put    /api/agents/{id}                     agent
    get    /api/agents/{id}/events              viewer
    post   /api/agents/{id}/events              agent
    get    /api/agents/{id}/commands            agent
    post   /api/agents/{id}/token               a process of the same user, on the Unix socket
    post   /api/agents/{id}/prompt              operator
    post   /api/agents/{id}/interrupt           operator
    post   /api/agents/{id}/stop                operator
    put    /api/agents/{id}/title               operator
    get    /api/agents/{id}/pending-questions   viewer
    post   /api/agents/{id}/answer-question     operator
    get    /api/tokens                          operator
    post   /api/tokens                          operator
    delete /api/tokens/{id}                     operator
    put    /api/tokens/{id}/label               operator
    post   /api/sign-in-links                   operator
    get    /api/grants                          viewer
    delete /api/grants/{id}                     operator
    post   /api/agents/{id}/plan-approval       operator
    get    /api/passkeys                        viewer
    post   /api/passkeys                        operator
    post   /api/passkeys/link                   operator
    post   /api/passkeys/challenge              operator
    post   /api/passkeys/{id}/remove            operator
    get    /api/policy                          viewer
    post   /api/asks/{id}/preview               viewer
    post   /mcp                                 agent
    get    /metrics                             viewer
    get    /api/ws                              viewer
    post   /api/sign-in                         anybody
    post   /api/session/challenge               the cookie of a browser's session
    post   /api/session/token                   the cookie of a browser's session
    get    /sign-in                             anybody
    get    /                                    anybody
    get    /preview/{ticket}                    anybody
    get    /assets/{name}                       anybody
    "#);
    let socket = &description.0["paths"]["/api/ws"]["get"]["x-websocket"];
    let schemas = &description.0["components"]["schemas"];
    assert_eq!(socket["fromClient"]["$ref"], "#/components/schemas/ClientFrame");
    let kinds = schemas["ClientFrame"]["oneOf"].as_array().unwrap().iter();
    let kinds: Vec<_> = kinds.map(|frame| frame["properties"]["type"]["const"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["answer", "ask_user_response", "token"]);
    assert_eq!(socket["fromHub"]["anyOf"][1]["$ref"], "#/components/schemas/SentResult");
    assert!(schemas["SentResult"]["properties"]["type"].to_string().contains("\"result\""));
    let timeout = &schemas["NewAsk"]["properties"]["timeout"];
    assert_eq!(timeout["anyOf"][0]["$ref"], "#/components/schemas/Timeout", "{timeout}");
    assert_eq!(schemas["Timeout"]["type"], serde_json::json!(["string", "integer"]));
    let text = description.0.to_string();
    for part in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(description.0["components"]["schemas"][name].is_object(), "{name} is described");
    }
}
