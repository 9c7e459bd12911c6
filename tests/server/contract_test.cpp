// The rules that K3's own endpoints have for requests, one table a rule: every form that is taken, and every one that is refused
// with the field it names. How they are read is tested closer by in tests/text/chat_request_test.cpp (F12: effort; messages; tools;
// response formats); the rules of streams in message.cpp, which every streamed test goes through: no null in a delta, an end frame
// whose delta is empty, a call's first delta that names it and holds no argument, later ones with nothing but index and arguments.
// That usage does not count the opener of the answer: "recorded conversations come out as recorded" in chat_test.cpp.
#include "tests/catch.hpp"
#include "tests/server/harness.hpp"

using namespace k3;
using namespace k3::test;

namespace {

struct Case {
  std::string fields;    // of the body, beside one user's message
  std::string expected;  // what they come to, or the field that the 400 names
};

const std::string kTool = R"({"type":"function","function":{"name":"f","parameters":{}}})";
const std::string kOther = R"({"type":"function","function":{"name":"g","parameters":{}}})";

// A refusal as the field it names.
std::string refusal(const Reply& reply) {
  INFO(reply.body);
  CHECK(reply.status == 400);
  CHECK(reply.error_field("type") == "invalid_request_error");
  const std::string param = reply.error_field("param");
  CHECK(reply.error_field("message").find(param) != std::string::npos);
  return "400 " + param;
}

std::string prompt_of(World& world, const std::string& body) {
  const Reply reply = world.post("/apply-template", body);
  return reply.status == 200 ? reply.json().find("prompt")->text : refusal(reply);
}

// How much the model is told to think: an effort, "unsaid", or "off".
std::string effort_of(World& world, const std::string& fields) {
  const std::string prompt = prompt_of(world, chat_body(fields));
  if (prompt.starts_with("400 ")) return prompt;
  const bool thinks = prompt.ends_with("<|open|>think<|sep|>");
  CHECK((thinks || prompt.ends_with("<|open|>response<|sep|>")));
  if (!thinks) return "off";
  constexpr std::string_view kSaid = "invoked with `thinking_effort=";
  const std::size_t said = prompt.find(kSaid);
  if (said == std::string::npos) return "unsaid";
  const std::string rest = prompt.substr(said + kSaid.size());
  return rest.substr(0, rest.find('`'));
}

// The answer's status, by either way of asking; a refusal as the field it names.
std::string answered(World& world, const std::string& body) {
  const Reply whole = world.post("/v1/chat/completions", body);
  std::string streaming = body;
  streaming.pop_back();
  const Reply stream = world.post("/v1/chat/completions", streaming + R"(,"stream":true})");
  CHECK(stream.status == whole.status);
  return whole.status == 200 ? "200" : refusal(whole);
}

}  // namespace

TEST_CASE("contract: effort in every spelling and by its rank") {
  const Case cases[] = {
      {"", "max"},
      {R"("reasoning_effort":"minimal")", "low"},
      {R"("reasoning_effort":"low")", "low"},
      {R"("reasoning_effort":"medium")", "high"},
      {R"("reasoning_effort":"high")", "high"},
      {R"("reasoning_effort":"xhigh")", "max"},
      {R"("reasoning_effort":"max")", "max"},
      {R"("reasoning_effort":"none")", "off"},
      {R"("reasoning_effort":null)", "max"},
      {R"("reasoning_effort":0.5)", "400 reasoning_effort"},
      {R"("reasoning_effort":"MAX")", "400 reasoning_effort"},
      {R"("thinking":{"type":"enabled","effort":"minimal"})", "low"},
      {R"("thinking":{"effort":"medium"})", "high"},
      {R"("thinking":{"effort":"xhigh"})", "max"},
      {R"("thinking":{"effort":"none"})", "off"},
      {R"("thinking":{"effort":0.5})", "400 thinking.effort"},
      {R"("thinking":{"type":"disabled"})", "off"},
      {R"("thinking":{"type":"disabled","effort":"max"})", "off"},
      {R"("thinking":{"type":"sometimes"})", "400 thinking.type"},
      {R"("thinking":"enabled")", "400 thinking"},
      {R"("chat_template_kwargs":{"thinking_effort":"low"})", "low"},
      {R"("chat_template_kwargs":{"thinking_effort":null})", "unsaid"},
      {R"("chat_template_kwargs":{"thinking_effort":"medium"})", "400 chat_template_kwargs.thinking_effort"},
      {R"("chat_template_kwargs":{"thinking_effort":"none"})", "400 chat_template_kwargs.thinking_effort"},
      {R"("chat_template_kwargs":{"thinking_effort":1.0})", "400 chat_template_kwargs.thinking_effort"},
      {R"("chat_template_kwargs":{"enable_thinking":false})", "off"},
      {R"("chat_template_kwargs":{"thinking":false})", "off"},
      // chat_template_kwargs > thinking > reasoning_effort, whatever their order in the body.
      {R"("thinking":{"effort":"high"},"reasoning_effort":"low")", "high"},
      {R"("chat_template_kwargs":{"thinking_effort":"max"},"thinking":{"effort":"high"},"reasoning_effort":"low")", "max"},
      {R"("chat_template_kwargs":{"thinking_effort":"low"},"reasoning_effort":"max")", "low"},
      // A weaker one that is wrong is wrong all the same.
      {R"("chat_template_kwargs":{"thinking_effort":"low"},"reasoning_effort":"best")", "400 reasoning_effort"},
      // `keep` is of no consequence: all thinking is kept.
      {R"("thinking":{"type":"enabled","keep":"all"})", "max"},
      {R"("thinking":{"type":"enabled","keep":"last"})", "max"},
      {R"("thinking":{"type":"enabled","keep":null})", "max"},
  };
  World world;
  for (const auto& [fields, expected] : cases) {
    INFO(fields);
    CHECK(effort_of(world, fields) == expected);
  }
}

TEST_CASE("contract: thinking is kept in the prompt whatever `keep` says") {
  World world;
  const std::string turns = R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b",)"
                            R"("reasoning_content":"a thought"},{"role":"user","content":"c"}])";
  const std::string all = prompt_of(world, turns + R"(,"thinking":{"type":"enabled","keep":"all"}})");
  CHECK(all.find("a thought") != std::string::npos);
  CHECK(prompt_of(world, turns + R"(,"thinking":{"type":"enabled","keep":"last"}})") == all);
  CHECK(prompt_of(world, turns + "}") == all);
}

TEST_CASE("contract: tool_choice") {
  const std::string tools = "\"tools\":[" + kTool + "],";
  const Case cases[] = {
      {tools + R"("tool_choice":"auto")", "200"},
      {tools + R"("tool_choice":"none")", "200"},
      {tools + R"("tool_choice":"required")", "200"},
      {tools + R"("tool_choice":null)", "200"},
      {tools + R"("tool_choice":{"type":"function","function":{"name":"f"}})", "200"},
      {R"("tool_choice":"auto")", "200"},
      {R"("tool_choice":"none")", "200"},
      {R"("tools":[],"tool_choice":"auto")", "200"},
      {R"("tools":[],"tool_choice":"none")", "200"},
      {R"("tool_choice":"required")", "400 tool_choice"},
      {R"("tools":[],"tool_choice":"required")", "400 tool_choice"},
      {tools + R"("tool_choice":"any")", "400 tool_choice"},
      {tools + R"("tool_choice":"f")", "400 tool_choice"},
      {tools + R"("tool_choice":1)", "400 tool_choice"},
      {tools + R"("tool_choice":{"type":"tool","name":"f"})", "400 tool_choice.type"},
      {tools + R"("tool_choice":{"type":"function"})", "400 tool_choice.function.name"},
      {tools + R"("tool_choice":{"type":"function","function":{"name":"h"}})", "400 tool_choice.function.name"},
  };
  World world;
  world.model->script({.ids = plain_output("ok")});
  for (const auto& [fields, expected] : cases) {
    INFO(fields);
    CHECK(answered(world, chat_body(fields)) == expected);
  }
}

TEST_CASE("contract: tools that a system message declares") {
  const auto with = [](const std::string& message, const std::string& fields = "") {
    return R"({"messages":[{"role":"user","content":"hi"},{)" + message + R"(},{"role":"user","content":"go"}])" + fields + "}";
  };
  const std::string one = "\"tools\":[" + kTool + "]";
  const Case cases[] = {
      {with(R"("role":"system",)" + one), "200"},
      {with(R"("role":"system","content":"",)" + one), "200"},
      {with(R"("role":"system","content":null,)" + one), "200"},
      {with(R"("role":"system","content":[],)" + one), "200"},
      {with(R"("role":"developer",)" + one), "200"},
      {with(R"("role":"system",)" + one, ",\"tools\":[" + kOther + "],\"tool_choice\":\"required\""), "200"},
      // One that only a message declares can be demanded.
      {with(R"("role":"system",)" + one, R"(,"tool_choice":"required")"), "200"},
      {with(R"("role":"system",)" + one, R"(,"tool_choice":{"type":"function","function":{"name":"f"}})"), "200"},
      {with(R"("role":"system","content":"x",)" + one), "400 messages[1].content"},
      {with(R"("role":"system","content":[{"type":"text","text":"x"}],)" + one), "400 messages[1].content"},
      {with(R"("role":"user","content":"",)" + one), "400 messages[1].tools"},
      {with(R"("role":"assistant","content":"",)" + one), "400 messages[1].tools"},
      {with(R"("role":"system","tools":{})"), "400 messages[1].tools"},
      {with(R"("role":"system","tools":[{"function":{"name":"f"}}])"), "400 messages[1].tools[0].type"},
      {with(R"("role":"system","tools":[{"type":"function"}])"), "400 messages[1].tools[0].function"},
      {with(R"("role":"system","tools":[{"type":"function","function":{}}])"), "400 messages[1].tools[0].function.name"},
      {with(R"("role":"system","tools":[)" + kTool + "," + kTool + "]"), "400 messages[1].tools[1].function.name"},
      {with(R"("role":"system",)" + one, ",\"tools\":[" + kTool + "]"), "400 messages[1].tools[0].function.name"},
      {with(R"("role":"system",)" + one + R"(},{"role":"system",)" + one), "400 messages[2].tools[0].function.name"},
      {with(R"("role":"user","content":"x")", ",\"tools\":[" + kTool + "," + kTool + "]"), "400 tools[1].function.name"},
  };
  World world;
  world.model->script({.ids = plain_output("ok")});
  for (const auto& [body, expected] : cases) {
    INFO(body);
    CHECK(answered(world, body) == expected);
  }
}

TEST_CASE("contract: what messages must have") {
  const std::string call =
      R"({"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},)";
  const Case cases[] = {
      {call + R"({"role":"tool","tool_call_id":"a","content":"1"})", "200"},
      {call + R"({"role":"tool","tool_call_id":"a","name":"f","content":"1"})", "200"},
      {call + R"({"role":"tool","content":"1"})", "400 messages[2].tool_call_id"},
      {call + R"({"role":"tool","tool_call_id":null,"content":"1"})", "400 messages[2].tool_call_id"},
      {call + R"({"role":"tool","tool_call_id":"","content":"1"})", "400 messages[2].tool_call_id"},
      {call + R"({"role":"tool","tool_call_id":7,"content":"1"})", "400 messages[2].tool_call_id"},
      {call + R"({"role":"tool","name":"f","content":"1"})", "400 messages[2].tool_call_id"},
      // A result without any call before it, as where history was cut, must say whose it is.
      {R"({"role":"tool","tool_call_id":"a","content":"1"})", "400 messages[1].tool_call_id"},
      {R"({"role":"tool","tool_call_id":"a","name":"f","content":"1"})", "200"},
      {R"({"role":"user","content":""})", "200"},
      {R"({"role":"user","content":[]})", "200"},
      {R"({"role":"user"})", "400 messages[1].content"},
      {R"({"role":"user","content":null})", "400 messages[1].content"},
      {R"({"role":"assistant"})", "200"},
  };
  World world;
  world.model->script({.ids = plain_output("ok")});
  for (const auto& [message, expected] : cases) {
    INFO(message);
    CHECK(answered(world, R"({"messages":[{"role":"user","content":"hi"},)" + message + "]}") == expected);
  }
}

TEST_CASE("contract: response_format") {
  const auto schema = [](const std::string& inside) {
    return R"("response_format":{"type":"json_schema","json_schema":{)" + inside + "}}";
  };
  const std::string whole = R"("name":"n","schema":{"type":"object"})";
  const std::string at = "400 response_format.json_schema";
  const Case cases[] = {
      {R"("response_format":null)", "200"},
      {R"("response_format":{"type":"text"})", "200"},
      {R"("response_format":{"type":"json_object"})", "200"},
      {schema(whole), "200"},
      {schema(whole + R"(,"strict":true)"), "200"},
      {schema(whole + R"(,"strict":false)"), "200"},
      {schema(whole + R"(,"strict":null)"), "200"},
      {schema(whole + R"(,"strict":"true")"), at + ".strict"},
      {schema(whole + R"(,"strict":1)"), at + ".strict"},
      {schema(R"("schema":{"type":"object"})"), at + ".name"},
      {schema(R"("name":"","schema":{"type":"object"})"), at + ".name"},
      {schema(R"("name":"n")"), at + ".schema"},
      {schema(R"("name":"n","schema":"object")"), at + ".schema"},
      {R"("response_format":{"type":"json_schema"})", at},
      {R"("response_format":{"type":"xml"})", "400 response_format.type"},
      {R"("response_format":{})", "400 response_format.type"},
      {R"("response_format":"json_object")", "400 response_format"},
  };
  World world;
  world.model->script({.ids = plain_output("{}")});
  for (const auto& [fields, expected] : cases) {
    INFO(fields);
    CHECK(answered(world, chat_body(fields)) == expected);
  }
}

TEST_CASE("contract: biases and seeds have one spelling") {
  const Case cases[] = {
      {R"("logit_bias":null)", "200"},
      {R"("logit_bias":{})", "200"},
      {R"("logit_bias":{"0":1,"1000":-100})", "200"},
      {R"("logit_bias":{"01":1})", "400 logit_bias"},
      {R"("logit_bias":{"00":1})", "400 logit_bias"},
      {R"("logit_bias":{"-0":1})", "400 logit_bias"},
      {R"("logit_bias":{"+1":1})", "400 logit_bias"},
      {R"("logit_bias":{"":1})", "400 logit_bias"},
      {R"("seed":9223372036854775807)", "200"},
      {R"("seed":-9223372036854775808)", "200"},
      {R"("seed":9223372036854775808)", "400 seed"},
      {R"("seed":18446744073709551615)", "400 seed"},
  };
  World world;
  world.model->script({.ids = plain_output("ok")});
  for (const auto& [fields, expected] : cases) {
    INFO(fields);
    CHECK(answered(world, chat_body(fields)) == expected);
  }
}
