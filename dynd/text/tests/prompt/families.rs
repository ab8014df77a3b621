//! Templates of every family: no text is lost, wherever a system message stands, and what is built
//! equals the plain rendering.

use dynd_core::Class;
use dynd_protocol::Chat;
use dynd_text::{FiredRule, PromptRules};

use crate::support::*;

/// Prints arguments as JSON of an object.
pub(crate) const OBJECTS: &str = "{%- for t in tools %}{{ t.function | tojson }}{% endfor %}\
    {%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}\
    {{ m.content }}{%- for c in m.tool_calls %}<tool_call>{{ c.function.name }} \
    {{ c.function.arguments | tojson }}</tool_call>{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}\
    {%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const CHATML: &str = "{%- for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ \
    '<|im_end|>\\n' }}{% endfor %}\
    {%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// Trims contents; tools stand in the first user message, descriptions in a format of its own.
const LLAMA3: &str = "{{ '<|begin_of_text|>' }}\
    {%- if messages[0].role == 'system' %}{% set sys = messages[0].content | trim %}\
    {% set messages = messages[1:] %}{% else %}{% set sys = '' %}{% endif %}\
    {{- '<|start_header_id|>system<|end_header_id|>\\n\\nDate: ' + '26 Jul 2024' + '\\n\\n' }}\
    {{- sys + '<|eot_id|>' }}\
    {%- if tools %}{% set first = messages[0].content | trim %}{% set messages = messages[1:] %}\
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\nFunctions:\\n\\n' }}\
    {%- for t in tools %}{{ t | tojson(indent=4) }}{{ '\\n\\n' }}{% endfor %}\
    {{- first + '<|eot_id|>' }}{% endif %}\
    {%- for m in messages %}{% if m.role == 'tool' or m.role == 'ipython' %}\
    {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + (m.content | tojson) + '<|eot_id|>' }}\
    {%- elif m.tool_calls %}\
    {%- if not m.tool_calls | length == 1 %}{{ raise_exception('one call at a time') }}{% endif %}\
    {%- set call = m.tool_calls[0].function %}\
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{\"name\": \"' + call.name }}\
    {{- '\", \"parameters\": ' }}{{ call.arguments | tojson }}{{ '}<|eot_id|>' }}\
    {%- else %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim \
    + '<|eot_id|>' }}{% endif %}{% endfor %}\
    {%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";

/// Strict alternation, the system text in the last user message, ids of nine characters.
const MISTRAL: &str = "{%- if messages[0].role == 'system' %}{% set sys = messages[0].content %}\
    {%- set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}\
    {{- bos_token }}{% set ns = namespace(i=0) %}\
    {%- for m in loop_messages %}{% if (m.role == 'user' or (m.role == 'assistant' and not \
    m.tool_calls)) %}{% if (m.role == 'user') != (ns.i % 2 == 0) %}\
    {{- raise_exception('roles must alternate') }}{% endif %}{% set ns.i = ns.i + 1 %}{% endif %}\
    {%- endfor %}\
    {%- for m in loop_messages %}{% if m.role == 'user' %}\
    {%- if loop.first and tools %}{{ '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}\
    {%- endif %}{% if loop.first and sys is defined %}{{ '[INST]' + sys + '\\n\\n' + m.content + '[/INST]' }}\
    {%- else %}{{ '[INST]' + m.content + '[/INST]' }}{% endif %}\
    {%- elif m.role == 'assistant' and m.tool_calls %}{{ '[TOOL_CALLS][' }}\
    {%- for c in m.tool_calls %}{% if c.id | length != 9 %}{{ raise_exception('nine!') }}{% endif %}\
    {{- '{\"name\": \"' + c.function.name + '\", \"arguments\": ' + (c.function.arguments | tojson) \
    + ', \"id\": \"' + c.id + '\"}' }}{% if not loop.last %}{{ ', ' }}{% endif %}{% endfor %}\
    {{- ']' + eos_token }}\
    {%- elif m.role == 'assistant' %}{{ m.content + eos_token }}\
    {%- elif m.role == 'tool' %}{% if m.tool_call_id | length != 9 %}{{ raise_exception('nine!') }}\
    {%- endif %}{{ '[TOOL_RESULTS]{\"content\": ' + m.content + ', \"call_id\": \"' + m.tool_call_id \
    + '\"}[/TOOL_RESULTS]' }}{% else %}{{ raise_exception('only user and assistant roles') }}{% endif %}\
    {%- endfor %}";

/// No system role at all, strict alternation, the assistant is called model.
const GEMMA: &str = "{{ '<bos>' }}{% if messages[0].role == 'system' %}\
    {{- raise_exception('System role not supported') }}{% endif %}\
    {%- for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
    {{- raise_exception('roles must alternate') }}{% endif %}\
    {%- set role = 'model' if m.role == 'assistant' else m.role %}\
    {{- '<start_of_turn>' + role + '\\n' + m.content | trim + '<end_of_turn>\\n' }}{% endfor %}\
    {%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}";

/// System messages anywhere are gathered at the head; thinking of the past is cut off.
const DEEPSEEK: &str = "{{ bos_token }}{% set ns = namespace(sys='') %}\
    {%- for m in messages %}{% if m.role == 'system' %}{% set ns.sys = ns.sys + m.content %}{% endif %}\
    {%- endfor %}{{ ns.sys }}\
    {%- for m in messages %}{% if m.role == 'user' %}{{ '<｜User｜>' + m.content }}\
    {%- elif m.role == 'assistant' %}{% set content = m.content %}\
    {%- if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}\
    {{- '<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>' }}{% endif %}{% endfor %}\
    {%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}";

/// One leading system message, later ones are silently left out.
const DROPS_LATER: &str = "{% for m in messages %}{% if m.role == 'system' and loop.first %}\
    {{- '<|im_start|>system\\n' + m.content + '<|im_end|>\\n' }}{% elif m.role != 'system' %}\
    {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}\
    {%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// Channels; the developer's text is a message of its own, tools are read field by field.
const HARMONY: &str = "{{ '<|start|>system<|message|>You are ChatGPT.<|end|>' }}\
    {%- if messages[0].role == 'developer' or messages[0].role == 'system' %}\
    {%- set dev = messages[0].content %}{% set loop_messages = messages[1:] %}\
    {%- else %}{% set dev = '' %}{% set loop_messages = messages %}{% endif %}\
    {%- if dev or tools %}{{ '<|start|>developer<|message|>' }}\
    {%- if dev %}{{ '# Instructions\\n\\n' + dev + '\\n\\n' }}{% endif %}\
    {%- if tools %}{{ '# Tools\\n\\nnamespace functions {\\n\\n' }}{% for t in tools %}\
    {{- '// ' + t.function.description + '\\ntype ' + t.function.name + ' = (_: {\\n' }}\
    {%- for name, p in t.function.parameters.properties.items() %}\
    {{- name + '?: ' + (p.type or 'any') + ',\\n' }}{% endfor %}\
    {{- '}) => any;\\n\\n' }}{% endfor %}{{ '} // namespace functions' }}{% endif %}\
    {{- '<|end|>' }}{% endif %}{% set ns = namespace(name='') %}\
    {%- for m in loop_messages %}{% if m.role == 'assistant' %}\
    {%- if m.tool_calls %}{% set call = m.tool_calls[0].function %}{% set ns.name = call.name %}\
    {%- if m.thinking %}{{ '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}\
    {%- endif %}{{ '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary \
    json<|message|>' + (call.arguments | tojson) + '<|end|>' }}\
    {%- else %}{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}{% endif %}\
    {%- elif m.role == 'tool' %}{{ '<|start|>functions.' + ns.name + ' to=assistant<|channel|>commentary\
    <|message|>' + (m.content | tojson) + '<|end|>' }}\
    {%- elif m.role == 'user' %}{{ '<|start|>user<|message|>' + m.content + '<|end|>' }}{% endif %}\
    {%- endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}";

pub(crate) fn families() -> Vec<(&'static str, String)> {
    let mut families = vec![("qwen3", qwen3_source())];
    for (name, source) in [
        ("objects", OBJECTS),
        ("chatml", CHATML),
        ("llama3", LLAMA3),
        ("mistral", MISTRAL),
        ("gemma", GEMMA),
        ("deepseek", DEEPSEEK),
        ("drops later", DROPS_LATER),
        ("harmony", HARMONY),
    ] {
        families.push((name, source.to_owned()));
    }
    families
}

fn in_order(text: &str, words: &[&str]) -> bool {
    let mut from = 0;
    words.iter().all(|word| match text[from..].find(word) {
        Some(at) => {
            from += at + word.len();
            true
        }
        None => false,
    })
}

fn developer(text: &str) -> dynd_protocol::Message {
    dynd_protocol::Message::text_of(dynd_protocol::Role::Developer, text)
}

#[test]
fn fr_036_instructions_and_a_developer_message_are_one_system_text() {
    for (name, source) in families() {
        let builder = builder_of(&source, PromptRules::default());
        let both = chat(vec![system("Alpha."), developer("Beta."), user("hi")]);
        let text = text_of(&builder, &both);
        assert!(text.contains("Alpha.\n\nBeta."), "{name}: {text}");
        assert!(in_order(&text, &["Alpha.", "Beta.", "hi"]), "{name}: {text}");
        let built = build(&builder, &both);
        assert!(built.fired.contains(&FiredRule::SystemMerged), "{name}");
        assert_eq!(built.text_dropped, None, "{name}");
    }
    let rules = PromptRules { merge_system: false, ..PromptRules::default() };
    let apart = builder_of(CHATML, rules);
    let text = text_of(&apart, &chat(vec![system("Alpha."), developer("Beta."), user("hi")]));
    assert!(text.contains("Alpha.<|im_end|>\n<|im_start|>system\nBeta."), "{text}");
}

#[test]
fn fr_010_a_system_message_in_the_middle_leaves_the_prefix_alone() {
    for (name, source) in families() {
        let builder = builder_of(&source, PromptRules::default());
        let mut history = vec![system("Alpha."), user("question one")];
        let before = build(&builder, &chat(history.clone()));
        history.extend([assistant("answer one"), user("question two"), system("a reminder")]);
        let after = build(&builder, &chat(history));
        let same = before.ids.iter().zip(&after.ids).take_while(|(a, b)| a == b).count();
        let head =
            builder.tokenizer().encode("<|im_start|>assistant\n", dynd_text::Specials::Parse);
        assert!(
            same + head.len() + 2 >= before.ids.len(),
            "{name}: {same} of {}",
            before.ids.len()
        );
    }
}

#[test]
fn fr_017_system_messages_are_rendered_where_they_stand() {
    for (name, source) in families() {
        let builder = builder_of(&source, PromptRules::default());
        for messages in [
            vec![user("one"), system("late"), assistant("two"), user("three")],
            vec![system("lead"), user("one"), assistant("two"), system("late"), user("three")],
            vec![system("lead"), user("one"), system("late")],
            vec![user("one"), assistant("two"), system("late")],
        ] {
            let words: Vec<String> = messages.iter().map(dynd_protocol::Message::text).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let text = text_of(&builder, &chat(messages.clone()));
            assert!(in_order(&text, &words), "{name}: {text}");
        }
    }
    let fired = |source: &str| {
        let builder = builder_of(source, PromptRules::default());
        build(&builder, &chat(vec![user("one"), assistant("two"), system("late")])).fired
    };
    assert_eq!(fired(CHATML), [], "a template that takes them gets them as they are");
    assert_eq!(fired(DROPS_LATER), [FiredRule::SystemAsUser]);
    assert_eq!(fired(DEEPSEEK), [FiredRule::SystemAsUser], "gathered at the head is not in place");
}

/// A loop of tools with everything in it.
fn agent() -> Chat {
    let mut chat = chat(vec![
        system("Be \"brief\".\nUse tools."),
        user("  read \\ it <b> é☃  "),
        calls(vec![thinking("I should read."), call("call_1", "read", "{\"path\": \"a\\\"b\"}")]),
        result("call_1", "one\n\ttwo \"three\" </think> \\"),
        assistant("It says one."),
        user("thanks"),
        assistant("\n\nYou are welcome.\n"),
        user("again"),
    ]);
    chat.tools = vec![tool("read"), tool("write")];
    chat
}

#[test]
fn every_family_is_followed_and_classes_hold_their_texts() {
    for (name, source) in families() {
        let builder = builder_of(&source, PromptRules::default());
        let built = build(&builder, &agent());
        assert!(!built.is_searched, "{name} is rendered with its contents taken out");
        let text = |class| class_text(&builder, &built, class);
        assert!(text(Class::System).contains("Use tools."), "{name}");
        assert!(text(Class::User).contains("read \\ it <b> é☃"), "{name}");
        assert!(!text(Class::User).contains("three"), "{name}: {}", text(Class::User));
        assert!(text(Class::Assistant).contains("It says one."), "{name}");
        assert!(text(Class::Assistant).contains("You are welcome."), "{name}");
        assert!(text(Class::ToolResult).contains("two"), "{name}");
        assert!(text(Class::Tools).contains("Does write."), "{name}: {}", text(Class::Tools));
        assert!(!text(Class::Tools).contains("thanks"), "{name}: {}", text(Class::Tools));
        let words = ["Use tools.", "read \\ it", "read", "It says one.", "thanks", "again"];
        let whole = text_of(&builder, &agent());
        assert!(in_order(&whole, &words), "{name}: {whole}");
    }
}

/// Ids of text without anything like markup are those of the plain text.
#[test]
fn ordinary_text_gets_the_ids_of_the_whole_text() {
    for (name, source) in families() {
        let builder = builder_of(&source, PromptRules::default());
        let chat = agent();
        let text = text_of(&builder, &chat).replace("</think> \\", "");
        let mut harmless = chat.clone();
        harmless.messages[3] = result("call_1", "one\n\ttwo \"three\"");
        let text_ids =
            builder.tokenizer().encode(&text_of(&builder, &harmless), dynd_text::Specials::Parse);
        assert_eq!(build(&builder, &harmless).ids, text_ids, "{name}: {text}");
    }
}
