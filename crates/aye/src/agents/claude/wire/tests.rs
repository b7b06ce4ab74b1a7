use super::*;

fn request(line: &str) -> (String, Request) {
    match decode(line.as_bytes()).unwrap() {
        Frame::Request { id, request } => (id, request),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_keeps_its_input_byte_for_byte() {
    let line = r#"{"request_id":"r1","type":"control_request","request":{"subtype":"can_use_tool","tool_name":"X","input":{"b":1e5, "a":9007199254740993},"tool_use_id":"t1","new_field":[1]}}"#;
    let (id, Request::CanUseTool(tool)) = request(line) else { panic!() };
    assert_eq!((id.as_str(), tool.tool_name.as_str(), tool.tool_use_id.as_deref()), ("r1", "X", Some("t1")));
    assert_eq!(tool.input.get(), r#"{"b":1e5, "a":9007199254740993}"#);
    let permit = Permit::Allow { input: tool.input, rules: vec![] };
    assert_eq!(
        permit_line("r1", &permit),
        r#"{"type":"control_response","response":{"subtype":"success","request_id":"r1","response":{"behavior":"allow","updatedInput":{"b":1e5, "a":9007199254740993}}}}"#
    );
}

#[test]
fn a_known_request_that_is_malformed_is_not_taken_for_an_unknown_one() {
    let line =
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","input":{}}}"#;
    assert!(matches!(request(line).1, Request::Malformed { why } if why.contains("tool_name")));
    let line = r#"{"type":"control_request","request_id":"r","request":{"subtype":"hook_callback"}}"#;
    assert!(matches!(request(line).1, Request::Unknown { subtype } if subtype == "hook_callback"));
}

#[test]
fn whoever_can_be_answered_is_not_met_with_silence() {
    for line in [
        r#"{"type":"control_request","request_id":"r1"}"#,
        r#"{"type":"control_request","request_id":"r1","request":{},"request":{}}"#,
    ] {
        let (id, request) = request(line);
        assert_eq!(id, "r1");
        assert!(matches!(request, Request::Malformed { why } if why.contains("request")), "{line}");
    }
    assert!(matches!(decode(br#"{"type":"control_request","request":{}}"#), Ok(Frame::Other)));
}

#[test]
fn new_kinds_pass_by_and_garbage_is_named() {
    assert!(matches!(decode(br#"{"type":"brand_new","x":1}"#), Ok(Frame::Other)));
    assert!(matches!(decode(br#"{"no":"type"}"#), Ok(Frame::Other)));
    assert!(decode(b"half a li").is_err());
    assert!(decode(b"").is_err());
}

#[test]
fn pictures_that_a_tool_returned_are_read_and_nothing_else_is_taken_for_one() {
    let line = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"image","source":{"type":"url","url":"http://a.example"}},{"type":"image","source":{"media_type":"text/html","data":"AAAA"}}]}]}}"#;
    let Frame::User { results, .. } = decode(line.as_bytes()).unwrap() else { panic!() };
    assert_eq!(results[0].images, [Image { media_type: "image/png".into(), data: "AAAA".into() }]);
}

#[test]
fn results_are_read_whatever_form_their_content_has() {
    let line = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"is_error":true}]},"tool_use_result":{"answers":{}}}"#;
    let Frame::User { results, detail, echo: false } = decode(line.as_bytes()).unwrap() else { panic!() };
    assert_eq!(
        results,
        [ToolResult { tool_use_id: "t".into(), text: "a\nb".into(), is_error: true, images: Vec::new() }]
    );
    assert_eq!(detail, Some(json!({"answers": {}})));
}

#[test]
fn every_line_we_write_is_one_line_of_json_with_the_shape_the_agent_knows() {
    let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
    let lines = [
        permit_line(
            "r\"1",
            &Permit::Allow {
                input: raw("{\n \"a\": \"x\\ny\"\n}"),
                rules: vec![json!({"type": "addRules"})],
            },
        ),
        permit_line("r", &Permit::Deny { message: "no\nway".into(), interrupt: false }),
        permit_line("r", &Permit::Deny { message: "stop".into(), interrupt: true }),
        error_line("r", "unknown"),
        initialize_line("i"),
        interrupt_line("i"),
        prompt_line("do\nit", None),
        tool_result_line("t", "SQLite", false),
    ];
    for line in &lines {
        assert!(!line.contains('\n'), "{line}");
        serde_json::from_str::<Value>(line).unwrap();
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"type":"control_response","response":{"subtype":"success","request_id":"r\"1","response":{"behavior":"allow","updatedInput":{"a":"x\ny"},"updatedPermissions":[{"type":"addRules"}]}}}
    {"type":"control_response","response":{"subtype":"success","request_id":"r","response":{"behavior":"deny","message":"no\nway"}}}
    {"type":"control_response","response":{"subtype":"success","request_id":"r","response":{"behavior":"deny","message":"stop","interrupt":true}}}
    {"type":"control_response","response":{"subtype":"error","request_id":"r","error":"unknown"}}
    {"type":"control_request","request_id":"i","request":{"subtype":"initialize","hooks":null}}
    {"type":"control_request","request_id":"i","request":{"subtype":"interrupt"}}
    {"type":"user","message":{"role":"user","content":"do\nit"}}
    {"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"SQLite","is_error":false}]}}
    "#);
}

#[test]
fn a_picture_stands_before_its_words() {
    let picture = Image { media_type: "image/png".into(), data: "iVBO".into() };
    insta::assert_snapshot!(prompt_line("look", Some(&picture)), @r#"{"type":"user","message":{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}},{"type":"text","text":"look"}]}}"#);
}
