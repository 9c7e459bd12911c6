// POST /v1/messages: what its requests become, and what is told of an answer, streamed and not.
#include <fstream>

#include "tests/catch.hpp"
#include "tests/server/named_events.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

namespace {

std::string body_of(std::string_view extra = "", std::string_view messages = R"([{"role":"user","content":"hi"}])") {
  std::string body = R"({"model":"any","max_tokens":1000,"messages":)" + std::string(messages);
  if (!extra.empty()) body += "," + std::string(extra);
  return body + "}";
}

const std::string kTools =
    R"("tools":[{"name":"add","description":"Adds.","input_schema":{"type":"object","properties":{"a":{"type":"number"}}}},)"
    R"({"type":"custom","name":"now","input_schema":{"type":"object"}}])";

std::string streamed(std::string body) { return body.substr(0, body.size() - 1) + R"(,"stream":true})"; }

std::string compact(const std::string& text) {
  const auto value = json::parse(text);
  if (!value) return text;  // of a call that was cut short
  std::string result;
  json::Writer(result).value(*value);
  return result;
}

Told from_whole_message(const Reply& reply) {
  INFO(reply.body);
  REQUIRE(reply.status == 200);
  const auto message = reply.json();
  CHECK(text_of(message, "type") == "message");
  CHECK(text_of(message, "role") == "assistant");
  CHECK(text_of(message, "model") == "scripted");
  Told told{.pieces = {},
            .id = text_of(message, "id"),
            .reason = text_of(message, "stop_reason"),
            .stop = text_of(message, "stop_sequence")};
  for (const auto& block : message.find("content")->items) {
    Piece piece{.kind = text_of(block, "type"), .text = "", .id = text_of(block, "id"), .name = text_of(block, "name")};
    if (piece.kind == "thinking") {
      piece.text = text_of(block, "thinking");
      CHECK(!text_of(block, "signature").empty());
    } else if (piece.kind == "text") {
      piece.text = text_of(block, "text");
    } else {
      json::Writer(piece.text).value(*block.find("input"));
    }
    told.pieces.push_back(piece);
  }
  const auto& usage = *message.find("usage");
  told.prompt = number_of(usage, "input_tokens") + number_of(usage, "cache_read_input_tokens");
  told.output = number_of(usage, "output_tokens");
  CHECK(message.find("timings") != nullptr);
  return told;
}

// Event by event, in the only order there is.
Told from_message_stream(const Reply& reply) {
  CHECK(reply.status == 200);
  CHECK(reply.complete);
  CHECK(reply.headers.at("content-type") == "text/event-stream");
  const auto events = named_events(reply);
  REQUIRE(events.size() >= 3);
  Told told;
  CHECK(events.front().name == "message_start");
  const auto& start = *events.front().data.find("message");
  told.id = text_of(start, "id");
  CHECK(start.find("content")->items.empty());
  CHECK(start.find("stop_reason")->is_null());
  const std::int64_t prompt = number_of(*start.find("usage"), "input_tokens");
  bool open = false;
  for (std::size_t i = 1; i + 2 < events.size(); ++i) {
    const auto& [name, data] = events[i];
    if (name == "ping") continue;
    if (name == "content_block_start") {
      CHECK(!open);
      open = true;
      CHECK(number_of(data, "index") == static_cast<std::int64_t>(told.pieces.size()));
      const auto& block = *data.find("content_block");
      told.pieces.push_back({text_of(block, "type"), "", text_of(block, "id"), text_of(block, "name")});
      if (told.pieces.back().kind == "tool_use") CHECK(block.find("input")->members.empty());
      continue;
    }
    REQUIRE(open);
    CHECK(number_of(data, "index") + 1 == static_cast<std::int64_t>(told.pieces.size()));
    if (name == "content_block_stop") {
      open = false;
      // As the whole message has it: without the spaces between its parts.
      if (told.pieces.back().kind == "tool_use") told.pieces.back().text = compact(told.pieces.back().text);
      continue;
    }
    REQUIRE(name == "content_block_delta");
    Piece& piece = told.pieces.back();
    const auto& delta = *data.find("delta");
    const std::string type = text_of(delta, "type");
    if (type == "signature_delta") {
      CHECK(events[i + 1].name == "content_block_stop");
      continue;
    }
    CHECK(type == (piece.kind == "thinking" ? "thinking_delta" : piece.kind == "text" ? "text_delta" : "input_json_delta"));
    piece.text += text_of(delta, piece.kind == "thinking" ? "thinking" : piece.kind == "text" ? "text" : "partial_json");
  }
  CHECK(!open);
  const auto& last = events[events.size() - 2];
  CHECK(last.name == "message_delta");
  CHECK(events.back().name == "message_stop");
  told.reason = text_of(*last.data.find("delta"), "stop_reason");
  told.stop = text_of(*last.data.find("delta"), "stop_sequence");
  const auto& usage = *last.data.find("usage");
  told.prompt = number_of(usage, "input_tokens") + number_of(usage, "cache_read_input_tokens");
  CHECK(told.prompt == prompt);
  told.output = number_of(usage, "output_tokens");
  return told;
}

// The answer to `body`, the same whether streamed or not.
Told ask(World& world, const std::string& body) {
  INFO(body);
  Told whole = from_whole_message(world.post("/v1/messages", body));
  Told stream = from_message_stream(world.post("/v1/messages", streamed(body)));
  CHECK(whole.id.starts_with("msg_"));
  CHECK(stream.id.starts_with("msg_"));
  CHECK(whole.id != stream.id);
  stream.id = whole.id;
  CHECK(whole.pieces == stream.pieces);
  CHECK(whole == stream);
  return whole;
}

std::vector<std::int32_t> prompt_of(World& world, const std::string& path, const std::string& body) {
  const Reply reply = world.post(path, body);
  INFO(body << "\n" << reply.body);
  REQUIRE(reply.status == 200);
  return world.model->last_job().prompt;
}

void refused(const Reply& reply, std::string_view path) {
  INFO(reply.body);
  CHECK(reply.status == 400);
  const auto error = reply.json();
  CHECK(text_of(error, "type") == "error");
  CHECK(text_of(error, "request_id") == reply.headers.at("x-request-id"));
  CHECK(text_of(*error.find("error"), "type") == "invalid_request_error");
  CHECK(text_of(*error.find("error"), "message").find(path) != std::string::npos);
}

}  // namespace

TEST_CASE("a message: thinking, text, and why it ended") {
  World world;
  world.model->script({.ids = plain_output("alpha beta gamma")});
  const Told told = ask(world, body_of());
  CHECK(told.pieces == std::vector<Piece>{{"thinking", "hm", "", ""}, {"text", "alpha beta gamma", "", ""}});
  CHECK(told.reason == "end_turn");
  CHECK(told.stop.empty());
  CHECK(told.prompt == static_cast<std::int64_t>(world.model->last_job().prompt.size()) - 3);
  const Told stopped = ask(world, body_of(R"("stop_sequences":["zzz"," gam"])"));
  CHECK(stopped.pieces.back().text == "alpha beta");
  CHECK(stopped.reason == "stop_sequence");
  CHECK(stopped.stop == " gam");
  std::string short_body = body_of();
  short_body.replace(short_body.find("1000"), 4, "3");
  CHECK(ask(world, short_body).reason == "max_tokens");
  world.model->script({.ids = output_of("only an answer<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>")});
  CHECK(ask(world, body_of(R"("thinking":{"type":"disabled"})")).pieces == std::vector<Piece>{{"text", "only an answer", "", ""}});
}

TEST_CASE("a message that calls tools, and what comes back into the next request") {
  World world;
  world.model->script({.ids = output_of(kTwoCalls)});
  const Told told = ask(world, body_of(kTools));
  CHECK(told.reason == "tool_use");
  REQUIRE(told.pieces.size() == 4);
  CHECK(told.pieces[0].text == "let me see");
  CHECK(told.pieces[1].text == "I add.");
  CHECK(told.pieces[2] == Piece{"tool_use", R"({"a":16,"b":"x \"y\""})", "add_0", "add"});
  CHECK(told.pieces[3] == Piece{"tool_use", "{}", "now_1", "now"});

  const std::string again =
      body_of(kTools + R"(,"system":"be brief")",
              R"([{"role":"user","content":"hi"},{"role":"assistant","content":[)"
              R"({"type":"thinking","thinking":"let me see","signature":"x"},{"type":"redacted_thinking","data":"zz"},)"
              R"({"type":"text","text":"I add."},{"type":"tool_use","id":"add_0","name":"add","input":{"a":16,"b":"x \"y\""}},)"
              R"({"type":"tool_use","id":"now_1","name":"now","input":{}}]},{"role":"user","content":[)"
              R"({"type":"tool_result","tool_use_id":"now_1","is_error":true,"content":"no clock"},)"
              R"({"type":"tool_result","tool_use_id":"add_0","content":[{"type":"text","text":"9"},{"type":"text","text":"1"}]},)"
              R"({"type":"text","text":"go on","cache_control":{"type":"ephemeral"}}]}])");
  const std::string chat =
      R"({"max_tokens":1000,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"},)"
      R"({"role":"assistant","content":"I add.","reasoning_content":"let me see","tool_calls":[)"
      R"({"id":"add_0","type":"function","function":{"name":"add","arguments":"{\"a\":16,\"b\":\"x \\\"y\\\"\"}"}},)"
      R"({"id":"now_1","type":"function","function":{"name":"now","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"now_1","content":"The tool reported an error:\nno clock"},)"
      R"({"role":"tool","tool_call_id":"add_0","content":"91"},{"role":"user","content":"go on"}],)"
      R"("tools":[{"type":"function","function":{"name":"add","description":"Adds.","parameters":)"
      R"({"type":"object","properties":{"a":{"type":"number"}}}}},)"
      R"({"type":"function","function":{"name":"now","parameters":{"type":"object"}}}]})";
  CHECK(prompt_of(world, "/v1/messages", again) == prompt_of(world, "/v1/chat/completions", chat));
  // Calls are counted on from those of the conversation.
  CHECK(ask(world, again).pieces[2].id == "add_2");
}

TEST_CASE("each way to say something in Messages is one in a chat") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const std::string hi = R"([{"role":"user","content":"hi"}])";
  const auto same = [&](const std::string& extra, const std::string& messages, const std::string& chat_extra,
                        const std::string& chat_messages) {
    const auto expected = prompt_of(world, "/v1/chat/completions",
                                    R"({"messages":)" + chat_messages + (chat_extra.empty() ? "" : "," + chat_extra) + "}");
    CHECK(prompt_of(world, "/v1/messages", body_of(extra, messages)) == expected);
  };
  same("", hi, "", hi);
  const std::string system = R"([{"role":"system","content":"a b"},{"role":"user","content":"hi"}])";
  same(R"("system":"a b")", hi, "", system);
  // Parts are not joined, so that the ids of one do not depend on its neighbours.
  same(R"("system":[{"type":"text","text":"a ","cache_control":{}},{"type":"text","text":"b"}])", hi, "",
       R"([{"role":"system","content":[{"type":"text","text":"a "},{"type":"text","text":"b"}]},{"role":"user","content":"hi"}])");
  same(R"("system":"")", hi, "", hi);
  same("", R"([{"role":"user","content":"hi"},{"role":"system","content":"now"},{"role":"user","content":"x"}])", "",
       R"([{"role":"user","content":"hi"},{"role":"system","content":"now"},{"role":"user","content":"x"}])");
  same("",
       R"([{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"d"}},)"
       R"({"type":"text","text":"hi"}]}])",
       "", R"([{"role":"user","content":"dhi"}])");
  same("", R"([{"role":"user","content":[]}])", "", R"([{"role":"user","content":""}])");
  same(R"("thinking":{"type":"disabled"})", hi, R"("thinking":{"type":"disabled"})", hi);
  same(R"("thinking":{"type":"adaptive"})", hi, R"("thinking":{"type":"enabled"})", hi);
  same(R"("thinking":{"type":"enabled","budget_tokens":2000})", hi, R"("reasoning_effort":"low")", hi);
  same(R"("thinking":{"type":"enabled","budget_tokens":10000})", hi, R"("reasoning_effort":"high")", hi);
  same(R"("thinking":{"type":"enabled","budget_tokens":2000},"output_config":{"effort":"max"})", hi, R"("reasoning_effort":"max")",
       hi);
  same(R"("output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})", hi,
       R"("response_format":{"type":"json_schema","json_schema":{"name":"output","schema":{"type":"object"}}})", hi);
  const std::string chat_tools = R"("tools":[{"type":"function","function":{"name":"add","description":"Adds.","parameters":)"
                                 R"({"type":"object","properties":{"a":{"type":"number"}}}}},)"
                                 R"({"type":"function","function":{"name":"now","parameters":{"type":"object"}}}])";
  for (const auto& [ours, theirs] :
       {std::pair(R"({"type":"auto"})", R"("auto")"), std::pair(R"({"type":"any"})", R"("required")"),
        std::pair(R"({"type":"none"})", R"("none")"),
        std::pair(R"({"type":"tool","name":"now"})", R"({"type":"function","function":{"name":"now"}})")})
    same(kTools + R"(,"tool_choice":)" + ours, hi, chat_tools + R"(,"tool_choice":)" + theirs, hi);
}

TEST_CASE("what of a Messages request reaches the job, and what is said of the rest") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const Reply reply =
      world.post("/v1/messages",
                 body_of(R"("temperature":0.5,"top_p":0.25,"top_k":7,"seed":3,"metadata":{"user_id":"me"},"service_tier":"auto",)"
                         R"("context_management":{},"tool_choice":{"type":"auto","disable_parallel_tool_use":true},)"
                         R"("thinking":{"type":"enabled","budget_tokens":5000},"cache_control":{"type":"ephemeral"})"),
                 "anthropic-version: 2023-06-01\r\nanthropic-beta: x\r\n");
  REQUIRE(reply.status == 200);
  const Job job = world.model->last_job();
  CHECK(job.sampling.temperature == 0.5F);
  CHECK(job.sampling.top_p == 0.25F);
  CHECK(job.sampling.top_k == 7);
  CHECK(job.sampling.seed == 3);
  CHECK(job.max_tokens == 1000);
  CHECK(reply.headers.at("x-k3-ignored") == "metadata,service_tier,context_management");
  CHECK(job.form.thinking_budget == 5000);
  CHECK(!reply.headers.at("x-request-id").empty());
  const std::string prefill = R"([{"role":"user","content":"hi"},{"role":"assistant","content":"{"}])";
  CHECK(world.post("/v1/messages", body_of("", prefill)).headers.at("x-k3-warnings").find("not continued") != std::string::npos);
}

TEST_CASE("thinking whose display is omitted is not shown, and comes back with its signature") {
  World world;
  world.model->script({.ids = output_of(kTwoCalls)});
  const std::string omitted = kTools + R"(,"thinking":{"type":"adaptive","display":"omitted"})";
  const auto message = world.post("/v1/messages", body_of(omitted)).json();
  const json::Value& thought = message.find("content")->items.at(0);
  CHECK(text_of(thought, "type") == "thinking");
  CHECK(thought.find("thinking")->text.empty());
  CHECK(text_of(thought, "signature") == "k3:let me see");
  std::string signature;
  for (const auto& event : named_events(world.post("/v1/messages", streamed(body_of(omitted))))) {
    const json::Value* delta = event.data.find("delta");
    if (event.name != "content_block_delta") continue;
    CHECK(text_of(*delta, "type") != "thinking_delta");
    signature += text_of(*delta, "signature");
  }
  CHECK(signature == "k3:let me see");
  const auto turns = [](const std::string& thinking) {
    return R"([{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking",)" + thinking +
           R"(},{"type":"text","text":"so"}]},{"role":"user","content":"well?"}])";
  };
  const auto shown =
      prompt_of(world, "/v1/messages", body_of("", turns(R"("thinking":"let me see","signature":"azMtdGhpbmtpbmc=")")));
  CHECK(prompt_of(world, "/v1/messages", body_of("", turns(R"("thinking":"","signature":"k3:let me see")"))) == shown);
  CHECK(prompt_of(world, "/v1/messages", body_of("", turns(R"("thinking":"","signature":"others")"))) != shown);
  CHECK(world.post("/v1/messages", body_of(R"("thinking":{"type":"enabled","display":"summarized"})")).status == 200);
  refused(world.post("/v1/messages", body_of(R"("thinking":{"type":"enabled","display":"loud"})")), "thinking.display");
}

TEST_CASE("what is wrong with a Messages request is told by its own names and places") {
  World world;
  const auto post = [&](const std::string& body) { return world.post("/v1/messages", body); };
  const auto user = [](const std::string& block) {
    return R"([{"role":"user","content":"a"},{"role":"user","content":[)" + block + "]}]";
  };
  const auto assistant = [](const std::string& block) { return R"([{"role":"assistant","content":[)" + block + "]}]"; };
  refused(post("{"), "not valid JSON");
  refused(post(R"({"messages":[{"role":"user","content":"x"}]})"), "max_tokens");
  refused(post(R"({"max_tokens":0,"messages":[{"role":"user","content":"x"}]})"), "max_tokens");
  refused(post(R"({"max_tokens":5})"), "messages");
  refused(post(body_of("", "[]")), "messages");
  refused(post(body_of("", "{}")), "messages");
  refused(post(body_of("", "[5]")), "messages[0]");
  refused(post(body_of("", R"([{"role":"tool","content":"x"}])")), "messages[0].role");
  refused(post(body_of("", R"([{"role":"user"}])")), "messages[0].content");
  refused(post(body_of("", R"([{"role":"user","content":5}])")), "messages[0].content");
  refused(post(body_of("", user(R"({"type":"text"})"))), "messages[1].content[0].text");
  refused(post(body_of("", user(R"({"type":"text","text":"a"},{"type":"image","source":{}})"))), "messages[1].content[1]");
  refused(post(body_of("", user(R"({"type":"document","source":{"type":"base64"}})"))), "messages[1].content[0].source");
  refused(post(body_of("", user(R"({"type":"poem"})"))), "messages[1].content[0].type");
  refused(post(body_of("", user(R"({"type":"tool_result","content":"x"})"))), "messages[1].content[0].tool_use_id");
  refused(post(body_of("", user(R"({"type":"tool_result","tool_use_id":"nobody","content":"x"})"))),
          "messages[1].content[0].tool_use_id");
  refused(post(body_of("", user(R"({"type":"tool_result","tool_use_id":"a","content":[{"type":"image"}]})"))),
          "messages[1].content[0].content[0]");
  refused(post(body_of("", user(R"({"type":"tool_result","tool_use_id":"a","is_error":1})"))), "messages[1].content[0].is_error");
  refused(post(body_of("", assistant(R"({"type":"tool_use","id":"a","input":{}})"))), "messages[0].content[0].name");
  refused(post(body_of("", assistant(R"({"type":"tool_use","name":"a","input":{}})"))), "messages[0].content[0].id");
  refused(post(body_of("", assistant(R"({"type":"tool_use","id":"a","name":"f","input":"x"})"))), "messages[0].content[0].input");
  refused(post(body_of("", assistant(R"({"type":"server_tool_use"})"))), "messages[0].content[0].type");
  refused(post(body_of("", assistant(R"({"type":"thinking"})"))), "messages[0].content[0].thinking");
  refused(post(body_of(R"("system":5)")), "system");
  refused(post(body_of(R"("system":[{"type":"image"}])")), "system[0]");
  refused(post(body_of(R"("stop_sequences":[""])")), "stop_sequences");
  refused(post(body_of(R"("stop_sequences":"a")")), "stop_sequences");
  refused(post(body_of(R"("temperature":3)")), "temperature");
  refused(post(body_of(R"("stream":"yes")")), "stream");
  refused(post(body_of(R"("thinking":{"type":"much"})")), "thinking.type");
  refused(post(body_of(R"("thinking":{"type":"enabled","budget_tokens":0})")), "thinking.budget_tokens");
  refused(post(body_of(R"("output_config":{"effort":"best"})")), "output_config.effort");
  refused(post(body_of(R"("output_config":{"format":{"type":"xml"}})")), "output_config.format.type");
  refused(post(body_of(R"("output_config":{"format":{"type":"json_schema"}})")), "output_config.format.schema");
  refused(post(body_of(R"("tools":[{"name":"f"}])")), "tools[0].input_schema");
  refused(post(body_of(R"("tools":[{"input_schema":{}}])")), "tools[0].name");
  refused(post(body_of(R"("tools":[{"type":"bash_20250124","name":"bash"}])")), "tools[0].type");
  refused(post(body_of(R"("tools":[{"name":"f","input_schema":{}},{"name":"f","input_schema":{}}])")), "tools[1].name");
  refused(post(body_of(R"("tool_choice":{"type":"any"})")), "tool_choice");
  refused(post(body_of(R"("tool_choice":{"type":"all"})")), "tool_choice.type");
  refused(post(body_of(kTools + R"(,"tool_choice":{"type":"tool","name":"g"})")), "tool_choice.name");
  CHECK(world.model->jobs_started() == 0);
}

TEST_CASE("recorded outputs are told alike, streamed and not") {
  World world;
  std::ifstream file(K3_TEST_DATA "/mini_transcripts.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto record = json::parse(line).value();
    Script script;
    for (const auto& id : record.find("generated_ids")->items) script.ids.push_back(static_cast<std::int32_t>(id.as_int().value()));
    world.model->script(script);
    const bool thinks = record.find("message")->find("reasoning_content") != nullptr;
    const Told told = ask(world, body_of(thinks ? "" : R"("thinking":{"type":"disabled"})"));
    CHECK(told.output == static_cast<std::int64_t>(script.ids.size()));
  }
}

TEST_CASE("a message cut anywhere, within a call too, is told alike but for the call") {
  World world;
  const auto ids = output_of(kTwoCalls);
  for (std::size_t length = 0; length < ids.size(); ++length) {
    world.model->script({.ids = {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length)}});
    INFO(length);
    const Told whole = from_whole_message(world.post("/v1/messages", body_of(kTools)));
    Told stream = from_message_stream(world.post("/v1/messages", streamed(body_of(kTools))));
    // Of a call that was cut the stream has shown the beginning; the whole message leaves it out.
    if (stream.pieces.size() > whole.pieces.size()) {
      CHECK(stream.reason == "max_tokens");
      CHECK(stream.pieces.back().kind == "tool_use");
      stream.pieces.pop_back();
    }
    CHECK(whole.pieces == stream.pieces);
    CHECK(whole.reason == stream.reason);
  }
}
