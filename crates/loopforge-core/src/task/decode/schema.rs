//! The readers of the task file's parts, one for each type.

use super::{Decoder, Finding, Node, ProblemCode, Value};
use crate::model::{Api, Money};
use crate::task::{
    Alternative, Budget, Entry, Evaluator, ForEach, Grants, Hook, HookAction, HookEvent, Input, Lifecycle, Limits,
    Mode, ModelPrice, ModelSpec, Net, OnFailure, OnLimit, OnMaxSteps, PerDay, Retry, Sandbox, SandboxSwitch, Stage,
    Status, StatusProcess, Subgoal, Task, ToolSpec, Usd, usual_stages,
};
use crate::tool::Effect;

impl Decoder<'_, '_, '_> {
    pub(super) fn task(&mut self, node: &Node) -> Option<Task> {
        let f = &mut self.fields(node, "Task", "a task")?;
        let name = self.required(f, "name", Self::text);
        let goal = self.required(f, "goal", Self::text);
        let inputs = self.optional(f, "inputs", |d, n| d.map(n, Self::input));
        let model = self.optional(f, "model", Self::model);
        let tools = self.optional(f, "tools", |d, n| d.map(n, Self::tool));
        // With a model the goal as a whole can be the only subgoal.
        let divided = !f.entries.iter().any(|entry| entry.key == "model")
            || f.entries.iter().any(|entry| entry.key == "subgoals");
        let subgoals = if divided {
            self.required(f, "subgoals", |d, n| d.list(n, Self::subgoal))
        } else {
            f.known.push("subgoals");
            Some(Vec::new())
        };
        let limits = self.optional(f, "loop", Self::limits);
        let budget = self.optional(f, "budget", Self::budget);
        let evaluator = self.optional(f, "evaluator", Self::evaluator);
        let states = self.optional(f, "states", Self::lifecycle);
        let hooks = self.optional(f, "hooks", |d, n| d.list(n, Self::hook));
        self.finish(f);
        let goal = goal?;
        let limits = limits.unwrap_or_default();
        let subgoals = if divided { subgoals? } else { vec![Subgoal::whole(&goal)] };
        Some(Task {
            name: name?,
            goal,
            inputs: inputs.unwrap_or_default(),
            model,
            tools: tools.unwrap_or_default(),
            subgoals,
            limits,
            budget,
            evaluator: evaluator.unwrap_or_default(),
            states,
            hooks: hooks.unwrap_or_default(),
        })
    }

    fn input(&mut self, node: &Node) -> Option<Input> {
        if let Value::Text(text) = &node.value {
            let remedy = format!("say how it is read: `{{ lines: {text} }}`, or `text`, `json` or `value`");
            return self.wrong_type(node, "an input, which is a map", Some(remedy));
        }
        let f = &mut self.fields(node, "Input", "an input")?;
        let input = Input {
            lines: self.optional(f, "lines", Self::text),
            text: self.optional(f, "text", Self::text),
            json: self.optional(f, "json", Self::text),
            value: self.optional(f, "value", Self::json),
            description: self.optional(f, "description", Self::text),
        };
        self.finish(f);
        Some(input)
    }

    fn model(&mut self, node: &Node) -> Option<ModelSpec> {
        if let Value::Text(name) = &node.value {
            return Some(ModelSpec { name: name.clone(), ..ModelSpec::default() });
        }
        let f = &mut self.fields(node, "ModelSpec", "a model")?;
        let name = self.required(f, "use", Self::text);
        let model = ModelSpec {
            name: String::new(),
            base_url: self.optional(f, "base_url", Self::text),
            api_key_env: self.optional(f, "api_key_env", Self::text),
            api: self.optional(f, "api", |d, n| {
                d.word(n, &[("chat", Api::Chat), ("responses", Api::Responses), ("messages", Api::Messages)])
            }),
            headers: self.optional(f, "headers", |d, n| d.map(n, Self::text)).unwrap_or_default(),
            body: self.optional(f, "body", |d, n| d.map(n, |_, value| Some(value.to_json()))).unwrap_or_default(),
            context_window: self.optional(f, "context_window", Self::whole),
            context_budget: self.optional(f, "context_budget", Self::whole),
            temperature: self.optional(f, "temperature", Self::temperature),
            fallback: self.optional(f, "fallback", Self::texts).unwrap_or_default(),
            on_limit: self
                .optional(f, "on_limit", |d, n| d.word(n, &[("wait", OnLimit::Wait), ("fallback", OnLimit::Fallback)]))
                .unwrap_or_default(),
            summarizer: self.optional(f, "summarizer", Self::text),
        };
        self.finish(f);
        Some(ModelSpec { name: name?, ..model })
    }

    fn tool(&mut self, node: &Node) -> Option<ToolSpec> {
        if let Value::Text(text) = &node.value {
            let remedy = format!("say where it comes from: `{{ builtin: {text} }}` or `{{ process: [...] }}`");
            return self.wrong_type(node, "a tool, which is a map", Some(remedy));
        }
        let f = &mut self.fields(node, "ToolSpec", "a tool")?;
        let tool = ToolSpec {
            builtin: self.optional(f, "builtin", Self::text),
            process: self.optional(f, "process", Self::texts),
            description: self.optional(f, "description", Self::text),
            input_schema: self.optional(f, "input_schema", Self::json),
            output_schema: self.optional(f, "output_schema", Self::json),
            effect: self.optional(f, "effect", |d, n| d.word(n, &[("read", Effect::Read), ("write", Effect::Write)])),
            idempotent: self.optional(f, "idempotent", Self::bool),
            effect_key: self.optional(f, "effect_key", Self::texts).unwrap_or_default(),
            grounded: self.optional(f, "grounded", |d, n| d.map(n, Self::text)).unwrap_or_default(),
            status: self.optional(f, "status", Self::status),
            requires: self.optional(f, "requires", Self::expression),
            with: self.optional(f, "with", |d, n| d.map(n, Self::template)).unwrap_or_default(),
            timeout: self.optional(f, "timeout", Self::span),
            retry: self.optional(f, "retry", Self::retry),
            max_calls: self.optional(f, "max_calls", Self::small),
            concurrency: self.optional(f, "concurrency", Self::small),
            cache: self.optional(f, "cache", Self::span),
            key_fields: self.optional(f, "key_fields", Self::texts).unwrap_or_default(),
            volatile: self.optional(f, "volatile", Self::texts).unwrap_or_default(),
            meaning_of_empty: self.optional(f, "meaning_of_empty", Self::text),
            allow: self.optional(f, "allow", Self::texts).unwrap_or_default(),
            sandbox: self.optional(f, "sandbox", Self::sandbox),
        };
        self.finish(f);
        Some(tool)
    }

    fn status(&mut self, node: &Node) -> Option<Status> {
        if let Value::Text(name) = &node.value {
            return Some(Status::Tool(name.clone()));
        }
        let f = &mut self.fields(node, "StatusProcess", "the name of a tool, or a process")?;
        let process = self.required(f, "process", Self::texts);
        self.finish(f);
        Some(Status::Process(StatusProcess { process: process? }))
    }

    fn retry(&mut self, node: &Node) -> Option<Retry> {
        let f = &mut self.fields(node, "Retry", "`retry`")?;
        let retry = Retry {
            max_attempts: self.optional(f, "max_attempts", Self::small),
            backoff: self.optional(f, "backoff", |d, n| d.list(n, Self::span)),
            longest_wait: self.optional(f, "longest_wait", Self::span),
        };
        self.finish(f);
        Some(retry)
    }

    fn sandbox(&mut self, node: &Node) -> Option<Sandbox> {
        // YAML 1.1 tools write `off` as `false`.
        match &node.value {
            Value::Bool(false) => return Some(Sandbox::Switch(SandboxSwitch::Off)),
            Value::Text(text) if text == "off" => return Some(Sandbox::Switch(SandboxSwitch::Off)),
            Value::Bool(true) | Value::Text(_) => {
                let remedy = "a process is sandboxed anyway: remove it, write `off`, or say what it may reach: `{ read: [\".\"] }`";
                return self.wrong_type(node, "`off` or grants", Some(remedy.to_owned()));
            }
            _ => {}
        }
        let f = &mut self.fields(node, "Grants", "`off` or grants")?;
        let grants = Grants {
            read: self.optional(f, "read", Self::texts).unwrap_or_default(),
            write: self.optional(f, "write", Self::texts).unwrap_or_default(),
            net: self.optional(f, "net", Self::net).unwrap_or_default(),
            env: self.optional(f, "env", Self::texts).unwrap_or_default(),
            memory_mb: self.optional(f, "memory_mb", Self::whole),
            cpu_s: self.optional(f, "cpu_s", Self::whole),
        };
        self.finish(f);
        Some(Sandbox::Grants(grants))
    }

    fn net(&mut self, node: &Node) -> Option<Net> {
        self.word(node, &[("none", Net::None), ("any", Net::Any)])
    }

    fn subgoal(&mut self, node: &Node) -> Option<Subgoal> {
        let f = &mut self.fields(node, "Subgoal", "a subgoal")?;
        let id = self.required(f, "id", Self::text);
        let goal = self.optional(f, "goal", Self::text);
        let needs = self.optional(f, "needs", Self::texts);
        let done_when = self.optional(f, "done_when", Self::expression);
        let when = self.optional(f, "when", Self::expression);
        let tools = self.optional(f, "tools", Self::texts);
        let foreach = self.optional(f, "foreach", Self::foreach);
        let steps = self.optional(f, "steps", |d, n| d.list(n, Self::entry));
        let on_failure = self.optional(f, "on_failure", Self::on_failure);
        self.finish(f);
        Some(Subgoal {
            id: id?,
            goal,
            needs: needs.unwrap_or_default(),
            done_when,
            when,
            tools,
            foreach,
            steps: steps.unwrap_or_default(),
            on_failure,
        })
    }

    fn on_failure(&mut self, node: &Node) -> Option<OnFailure> {
        const WORDS: &[(&str, OnFailure)] = &[
            ("fail", OnFailure::Fail),
            ("defer", OnFailure::Defer),
            ("ask", OnFailure::Ask),
            ("replan", OnFailure::Replan),
        ];
        self.word(node, WORDS)
    }

    fn foreach(&mut self, node: &Node) -> Option<ForEach> {
        let f = &mut self.fields(node, "ForEach", "`foreach`")?;
        let list = self.required(f, "in", Self::expression);
        let name = self.required(f, "as", Self::text);
        let parallel = self.optional(f, "parallel", Self::small);
        self.finish(f);
        Some(ForEach { list: list?, name: name?, parallel: parallel.unwrap_or(1) })
    }

    fn entry(&mut self, node: &Node) -> Option<Entry> {
        let f = &mut self.fields(node, "Entry", "a step")?;
        let entry = Entry {
            call: self.optional(f, "call", Self::text),
            with: self.optional(f, "with", |d, n| d.map(n, Self::template)).unwrap_or_default(),
            save: self.optional(f, "save", Self::save_to),
            when: self.optional(f, "when", Self::expression),
            or_else: self.optional(f, "or_else", |d, n| d.list(n, Self::alternative)).unwrap_or_default(),
            set: self.optional(f, "set", |d, n| d.map(n, Self::template)).unwrap_or_default(),
            wait: self.optional(f, "wait", Self::span),
            enter: self.optional(f, "enter", Self::text),
        };
        self.finish(f);
        Some(entry)
    }

    fn alternative(&mut self, node: &Node) -> Option<Alternative> {
        let f = &mut self.fields(node, "Alternative", "a call to try instead")?;
        let call = self.required(f, "call", Self::text);
        let with = self.optional(f, "with", |d, n| d.map(n, Self::template));
        self.finish(f);
        Some(Alternative { call: call?, with: with.unwrap_or_default() })
    }

    fn limits(&mut self, node: &Node) -> Option<Limits> {
        let f = &mut self.fields(node, "Limits", "`loop`")?;
        let default = Limits::default();
        let on_max_steps = &[("stop", OnMaxSteps::Stop), ("ask", OnMaxSteps::Ask)];
        let limits = Limits {
            max_steps: self.optional(f, "max_steps", Self::whole).unwrap_or(default.max_steps),
            on_max_steps: self.optional(f, "on_max_steps", |d, n| d.word(n, on_max_steps)).unwrap_or_default(),
            max_duration: self.optional(f, "max_duration", Self::span),
            checkpoint_interval: self
                .optional(f, "checkpoint_interval", Self::whole)
                .unwrap_or(default.checkpoint_interval),
            checkpoint_max_age: self
                .optional(f, "checkpoint_max_age", Self::span)
                .unwrap_or(default.checkpoint_max_age),
            idle_timeout: self.optional(f, "idle_timeout", Self::span).unwrap_or(default.idle_timeout),
            max_calls_per_tool: self
                .optional(f, "max_calls_per_tool", Self::small)
                .unwrap_or(default.max_calls_per_tool),
            max_continuous_loops: self
                .optional(f, "max_continuous_loops", Self::small)
                .unwrap_or(default.max_continuous_loops),
            replan_after: self.optional(f, "replan_after", Self::small).unwrap_or(default.replan_after),
            defer_rounds: self.optional(f, "defer_rounds", Self::small).unwrap_or(default.defer_rounds),
            parallel: self.optional(f, "parallel", Self::small).unwrap_or(default.parallel),
            mode: self
                .optional(f, "mode", |d, n| d.word(n, &[("plan_execute", Mode::PlanExecute), ("react", Mode::React)]))
                .unwrap_or_default(),
            max_tokens_per_step: self
                .optional(f, "max_tokens_per_step", Self::whole)
                .unwrap_or(default.max_tokens_per_step),
            max_replans: self.optional(f, "max_replans", Self::small).unwrap_or(default.max_replans),
        };
        self.finish(f);
        Some(limits)
    }

    fn budget(&mut self, node: &Node) -> Option<Budget> {
        const STAGES: &[(&str, Stage)] = &[
            ("summary_only", Stage::SummaryOnly),
            ("smaller_model", Stage::SmallerModel),
            ("semi_manual", Stage::SemiManual),
            ("stop", Stage::Stop),
        ];
        let f = &mut self.fields(node, "Budget", "`budget`")?;
        let budget = Budget {
            tokens: self.optional(f, "tokens", Self::whole),
            cost_usd: self.optional(f, "cost_usd", Self::usd),
            account: self.optional(f, "account", Self::text),
            per_day: self.optional(f, "per_day", Self::per_day),
            prices: self.optional(f, "prices", |d, n| d.map(n, Self::model_price)).unwrap_or_default(),
            on_exceed: self
                .optional(f, "on_exceed", |d, n| d.list(n, |d, n| d.word(n, STAGES)))
                .unwrap_or_else(usual_stages),
        };
        self.finish(f);
        Some(budget)
    }

    fn per_day(&mut self, node: &Node) -> Option<PerDay> {
        let f = &mut self.fields(node, "PerDay", "`per_day`")?;
        let per_day = PerDay {
            tokens: self.optional(f, "tokens", Self::whole),
            cost_usd: self.optional(f, "cost_usd", Self::usd),
        };
        self.finish(f);
        Some(per_day)
    }

    fn model_price(&mut self, node: &Node) -> Option<ModelPrice> {
        let f = &mut self.fields(node, "ModelPrice", "a price")?;
        let input = self.required(f, "input", Self::usd);
        let cached_input = self.optional(f, "cached_input", Self::usd);
        let cache_write = self.optional(f, "cache_write", Self::usd);
        let output = self.required(f, "output", Self::usd);
        self.finish(f);
        Some(ModelPrice { input: input?, cached_input, cache_write, output: output? })
    }

    /// An amount of money. A number is read by its digits, so that none is rounded.
    fn usd(&mut self, node: &Node) -> Option<Usd> {
        let text = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return self.wrong_type(node, "an amount of US dollars such as `2.50`", None),
        };
        match Money::parse(&text) {
            Ok(money) => Some(Usd(money)),
            Err(message) => self.wrong(node, Finding::new(ProblemCode::BadValue, message)),
        }
    }

    fn evaluator(&mut self, node: &Node) -> Option<Evaluator> {
        let f = &mut self.fields(node, "Evaluator", "`evaluator`")?;
        let criteria = self.optional(f, "criteria", |d, n| d.list(n, Self::expression)).unwrap_or_default();
        let judge = self.optional(f, "judge", Self::bool).unwrap_or_default();
        let allow_replan = self.optional(f, "allow_replan", Self::bool).unwrap_or(true);
        self.finish(f);
        Some(Evaluator { criteria, judge, allow_replan })
    }

    fn lifecycle(&mut self, node: &Node) -> Option<Lifecycle> {
        let f = &mut self.fields(node, "Lifecycle", "`states`")?;
        let initial = self.required(f, "initial", Self::text);
        let transitions = self.required(f, "transitions", |d, n| d.map(n, Self::texts));
        let tools = self.optional(f, "tools", |d, n| d.map(n, Self::texts)).unwrap_or_default();
        self.finish(f);
        Some(Lifecycle { initial: initial?, transitions: transitions?, tools })
    }

    fn hook(&mut self, node: &Node) -> Option<Hook> {
        const EVENTS: &[(&str, HookEvent)] = &[
            ("step_completed", HookEvent::StepCompleted),
            ("checkpoint_restored", HookEvent::CheckpointRestored),
            ("loop_exceeded", HookEvent::LoopExceeded),
            ("person_needed", HookEvent::PersonNeeded),
            ("limit_reached", HookEvent::LimitReached),
            ("budget_warning", HookEvent::BudgetWarning),
            ("finished", HookEvent::Finished),
        ];
        const ACTIONS: &[(&str, HookAction)] = &[
            ("log", HookAction::Log),
            ("log_state_summary", HookAction::LogStateSummary),
            ("pause_and_alert", HookAction::PauseAndAlert),
        ];
        let f = &mut self.fields(node, "Hook", "a hook")?;
        let on = self.required(f, "on", |d, n| d.word(n, EVENTS));
        let every = self.optional(f, "every", Self::whole);
        let action = self.optional(f, "do", |d, n| d.word(n, ACTIONS));
        let webhook = self.optional(f, "webhook", Self::text);
        let secret_env = self.optional(f, "secret_env", Self::text);
        let process = self.optional(f, "process", Self::texts);
        self.finish(f);
        Some(Hook { on: on?, every, action, webhook, secret_env, process })
    }
}
