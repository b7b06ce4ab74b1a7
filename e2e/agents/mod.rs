//! The real agents, driven by `aye run`, with a scripted model behind each. The stories are the same for all of them,
//! and each checks what the model was told in the end, which is the only proof.

mod acp;
mod broken;
mod broken_server;
mod codex;
mod modes;
mod opencode;
mod stage;
mod stories;
mod table;

use aye_testkit::model::{Model, tool};
use serde_json::{Value, json};
pub use stage::Stage;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
pub use stories::child_of;

/// Sets the stage for an agent and begins its run.
type Begin = fn(&'static Agent) -> (Stage, Child);

/// A real agent, as the stories need it.
pub struct Agent {
    pub kind: &'static str,
    /// As people call it.
    pub name: &'static str,
    /// The version that the stories are told with.
    pub version: &'static str,
    /// Its own configuration, so that it calls the model at this address.
    pub set_up: fn(&mut Command, &Path, &str),
    /// A call of its tool that runs a command.
    pub runs: fn(id: &str, command: &str) -> Value,
    /// A call of its tool that asks "Which DB?", SQLite among the options.
    pub asks: Option<fn(id: &str) -> Value>,
    /// A run whose model wants its plan "1. write tests" approved, by the call `call_p`.
    pub plans: Option<Begin>,
    /// The stories that cannot be told with it, and why.
    pub cannot: &'static [(&'static str, &'static str)],
}

impl Agent {
    /// Whether one refusal refuses whatever else it asks for at that moment.
    pub fn refuses_together(&self) -> bool {
        self.kind == OPENCODE.kind
    }

    pub fn cannot(&self, story: &str) -> Option<&'static str> {
        self.cannot.iter().find(|(name, _)| *name == story).map(|(_, why)| *why)
    }
}

/// The real program. Tests with it are ignored unless asked for, because a plain `cargo test` may not have it.
pub fn program(variable: &str) -> PathBuf {
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.unwrap_or_else(|| {
        panic!("{variable} must name the real program: run scripts/test, which installs it")
    })
}

pub static CLAUDE: Agent = Agent {
    kind: "claude",
    name: "Claude Code",
    version: "2.1.327",
    set_up: |command, work, model| {
        command.env("AYE_CLAUDE", program("AYE_TEST_CLAUDE"));
        command.env("ANTHROPIC_BASE_URL", model).env("ANTHROPIC_API_KEY", "sk-ant-fake");
        command.env("CLAUDE_CONFIG_DIR", work.join(".config")).env("IS_SANDBOX", "1");
        command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("DISABLE_AUTOUPDATER", "1");
    },
    runs: |id, command| tool(id, "Bash", json!({"command": command, "description": "x"})),
    asks: Some(|id| {
        let option = |label: &str| json!({"label": label, "description": "."});
        let options = [option("PostgreSQL"), option("SQLite")];
        let question =
            json!({"question": "Which DB?", "header": "DB", "multiSelect": false, "options": options});
        tool(id, "AskUserQuestion", json!({"questions": [question]}))
    }),
    plans: Some(|agent| planning(agent, vec![vec![tool("call_p", "ExitPlanMode", json!({"plan": PLAN}))]])),
    cannot: &[("two requests at once", "it asks one after the other")],
};

pub static CODEX: Agent = Agent {
    kind: "codex",
    name: "Codex",
    version: "0.169.0",
    set_up: |command, work, model| {
        let home = work.join(".codex");
        std::fs::create_dir_all(&home).unwrap();
        let config = format!(
            "model = \"scripted\"\nmodel_provider = \"scripted\"\n[model_providers.scripted]\nname = \"scripted\"\n\
             base_url = \"{model}/v1\"\nwire_api = \"responses\"\nenv_key = \"SCRIPTED_KEY\"\n\
             request_max_retries = 0\nstream_max_retries = 0\nsupports_websockets = false\n"
        );
        std::fs::write(home.join("config.toml"), config).unwrap();
        command
            .env("AYE_CODEX", program("AYE_TEST_CODEX"))
            .env("CODEX_HOME", home)
            .env("SCRIPTED_KEY", "fake");
    },
    runs: |id, command| tool(id, "exec_command", json!({"cmd": command})),
    asks: Some(|id| {
        let option = |label: &str| json!({"label": label, "description": "."});
        let options = [option("PostgreSQL"), option("SQLite")];
        let question = json!({"id": "db", "question": "Which DB?", "header": "DB", "options": options});
        tool(id, "request_user_input", json!({"questions": [question]}))
    }),
    plans: None,
    cannot: &[("a plan is approved", "its plan mode is its terminal's alone")],
};

pub static OPENCODE: Agent = Agent {
    kind: "opencode",
    name: "OpenCode",
    version: "1.18.33",
    set_up: |command, work, model| {
        let home = work.join(".config/opencode");
        std::fs::create_dir_all(&home).unwrap();
        let options = json!({"baseURL": format!("{model}/v1"), "apiKey": "fake"});
        let provider =
            json!({"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": {}}});
        // It allows everything by itself, and asks all the same.
        let config = json!({"model": "scripted/scripted", "provider": {"scripted": provider},
            "enabled_providers": ["scripted"], "permission": {"*": "allow", "bash": {"*": "allow"}}});
        std::fs::write(home.join("opencode.json"), config.to_string()).unwrap();
        command.env("AYE_OPENCODE", program("AYE_TEST_OPENCODE")).env("OPENCODE_DISABLE_MODELS_FETCH", "1");
        command.env("OPENCODE_DISABLE_AUTOUPDATE", "1").env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1");
    },
    runs: |id, command| tool(id, "bash", json!({"command": command, "description": "x"})),
    asks: Some(|id| {
        let option = |label: &str| json!({"label": label, "description": "."});
        let options = [option("PostgreSQL"), option("SQLite")];
        let question = json!({"question": "Which DB?", "header": "DB", "options": options});
        tool(id, "question", json!({"questions": [question]}))
    }),
    plans: None,
    cannot: &[("a plan is approved", "leaving its plan mode is a question")],
};

pub static QWEN: Agent = Agent {
    kind: "qwen",
    name: "Qwen Code",
    version: "0.24.4",
    set_up: |command, work, model| {
        let home = work.join(".qwen");
        std::fs::create_dir_all(&home).unwrap();
        let settings = json!({"security": {"auth": {"selectedType": "openai"}}});
        std::fs::write(home.join("settings.json"), settings.to_string()).unwrap();
        command.env("AYE_QWEN", program("AYE_TEST_QWEN")).env("OPENAI_API_KEY", "fake");
        command.env("OPENAI_BASE_URL", format!("{model}/v1")).env("OPENAI_MODEL", "scripted");
    },
    runs: |id, command| tool(id, "run_shell_command", json!({"command": command, "is_background": false})),
    asks: Some(|id| {
        let option = |label: &str| json!({"label": label, "description": "."});
        let options = [option("PostgreSQL"), option("SQLite")];
        let question =
            json!({"question": "Which DB?", "header": "DB", "multiSelect": false, "options": options});
        tool(id, "ask_user_question", json!({"questions": [question]}))
    }),
    plans: Some(|agent| planning(agent, vec![vec![tool("call_p", "exit_plan_mode", json!({"plan": PLAN}))]])),
    cannot: &[("two requests at once", "it asks one after the other")],
};

pub static GEMINI: Agent = Agent {
    kind: "gemini",
    name: "Gemini CLI",
    version: "0.61.0",
    set_up: |command, _, model| {
        command.env("AYE_GEMINI", program("AYE_TEST_GEMINI")).env("GEMINI_API_KEY", "fake");
        // Of a model that is named it does not ask another which one to take.
        command.env("GOOGLE_GEMINI_BASE_URL", model).env("GEMINI_MODEL", "gemini-2.5-flash");
    },
    runs: |id, command| tool(id, "run_shell_command", json!({"command": command, "description": "x"})),
    asks: None,
    plans: Some(|agent| {
        let file = json!({"file_path": "plan.md", "content": PLAN});
        let exit = tool("call_p", "exit_plan_mode", json!({"plan_filename": "plan.md"}));
        planning(agent, vec![vec![tool("call_w", "write_file", file)], vec![exit]])
    }),
    cannot: &[
        ("a question is answered", "it asks none over ACP"),
        ("two requests at once", "it asks one after the other"),
    ],
};

pub static KIMI: Agent = Agent {
    kind: "kimi",
    name: "Kimi Code",
    version: "2.1.0",
    set_up: |command, work, model| {
        let home = work.join(".kimi-code");
        std::fs::create_dir_all(&home).unwrap();
        let config = format!(
            "default_model = \"scripted/scripted\"\n[providers.scripted]\ntype = \"openai\"\n\
             base_url = \"{model}/v1\"\napi_key = \"fake\"\n[models.\"scripted/scripted\"]\n\
             provider = \"scripted\"\nmodel = \"scripted\"\nmax_context_size = 100000\n\
             capabilities = [\"tool_use\"]\n"
        );
        std::fs::write(home.join("config.toml"), config).unwrap();
        let program = program("AYE_TEST_KIMI");
        // The Node.js that it needs is installed beside it.
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
        command.env("AYE_KIMI", program);
    },
    runs: |id, command| tool(id, "Bash", json!({"command": command})),
    asks: Some(|id| {
        let option = |label: &str| json!({"label": label, "description": "."});
        let options = [option("PostgreSQL"), option("SQLite")];
        let question =
            json!({"question": "Which DB?", "header": "DB", "multi_select": false, "options": options});
        tool(id, "AskUserQuestion", json!({"questions": [question]}))
    }),
    // The model is told where to write the plan.
    plans: Some(|agent| {
        let write = tool("call_w", "Bash", json!({"command": "sh ./write-plan"}));
        let calls = vec![vec![write], vec![tool("call_p", "ExitPlanMode", json!({}))]];
        let (stage, run) = planning(agent, calls);
        let ask = stage.ask();
        let told = stage.model.requests()[0].to_string();
        let (_, file) = told.rsplit_once("Plan file: ").expect("the plan file");
        let file = file.split(['\\', '"']).next().unwrap();
        std::fs::write(stage.work.path().join("write-plan"), format!("echo '{PLAN}' > '{file}'")).unwrap();
        assert_eq!(stage.hub.answer(&ask, json!({"decision": "allow", "scope": "once"})).status, 200);
        stage.told("call_w", "");
        (stage, run)
    }),
    cannot: &[("two requests at once", "it asks one after the other")],
};

pub static COPILOT: Agent = Agent {
    kind: "copilot",
    name: "Copilot CLI",
    version: "1.0.102",
    set_up: |command, _, model| {
        let program = program("AYE_TEST_COPILOT");
        // It unpacks itself, which takes long and much room; once is enough.
        let cache = program.ancestors().nth(3).unwrap().join("cache");
        command.env("AYE_COPILOT", program).env("XDG_CACHE_HOME", cache);
        command.env("COPILOT_OFFLINE", "true").env("COPILOT_PROVIDER_BASE_URL", format!("{model}/v1"));
        command.env("COPILOT_PROVIDER_API_KEY", "fake").env("COPILOT_MODEL", "scripted");
    },
    runs: |id, command| tool(id, "bash", json!({"command": command, "description": "x"})),
    asks: None,
    plans: None,
    cannot: &[
        ("a question is answered", "it asks none over ACP"),
        ("a plan is approved", "over ACP it has no tool to show one"),
    ],
};

const PLAN: &str = "1. write tests";

/// A run in plan mode with a model that makes these calls.
fn planning(agent: &'static Agent, calls: Vec<Vec<Value>>) -> (Stage, Child) {
    let stage = Stage::new(agent, Model::scripted(calls));
    let run = stage.run(&["--mode", "plan"]);
    (stage, run)
}

/// Every agent that stories are told with.
pub static AGENTS: [&Agent; 7] = [&CLAUDE, &CODEX, &OPENCODE, &GEMINI, &QWEN, &KIMI, &COPILOT];
