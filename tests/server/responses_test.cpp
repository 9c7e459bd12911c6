// POST /v1/responses: what its requests become, and what is told of an answer, streamed and not.
#include <fstream>

#include "tests/catch.hpp"
#include "tests/server/named_events.hpp"

using namespace k3;
using namespace k3::test;

namespace {

std::string body_of(std::string_view extra = "", std::string_view input = R"("hi")") {
  std::string body = R"({"model":"any","input":)" + std::string(input);
  if (!extra.empty()) body += "," + std::string(extra);
  return body + "}";
}

const std::string kTools =
    R"("tools":[{"type":"function","name":"add","description":"Adds.","parameters":{"type":"object"},"strict":false},)"
    R"({"type":"function","name":"now","parameters":{"type":"object"},"strict":null}])";
const std::string kChatTools =
    R"("tools":[{"type":"function","function":{"name":"add","description":"Adds.","parameters":{"type":"object"},"strict":false}},)"
    R"({"type":"function","function":{"name":"now","parameters":{"type":"object"}}}])";

std::string streamed(std::string body) { return body.substr(0, body.size() - 1) + R"(,"stream":true})"; }

Piece piece_of(const json::Value& item) {
  Piece piece{.kind = text_of(item, "type"), .text = "", .id = text_of(item, "call_id"), .name = text_of(item, "name")};
  CHECK((text_of(item, "status") == "completed" || text_of(item, "status") == "incomplete"));
  if (text_of(item, "status") == "incomplete") piece.name += " cut";
  if (piece.kind == "function_call") {
    piece.text = text_of(item, "arguments");
    return piece;
  }
  for (const auto& part : item.find("content")->items) {
    CHECK(text_of(part, "type") == (piece.kind == "reasoning" ? "reasoning_text" : "output_text"));
    piece.text += text_of(part, "text");
  }
  return piece;
}

Told from_response(const json::Value& response) {
  CHECK(text_of(response, "object") == "response");
  CHECK(text_of(response, "model") == "scripted");
  CHECK(!response.find("store")->boolean);
  Told told{.pieces = {}, .id = text_of(response, "id"), .reason = text_of(response, "status"), .stop = ""};
  const json::Value* details = response.find("incomplete_details");
  if (!details->is_null()) told.stop = text_of(*details, "reason");
  for (const auto& item : response.find("output")->items) {
    // Only the last item of an incomplete response may be incomplete.
    CHECK((told.pieces.empty() || !told.pieces.back().name.ends_with(" cut")));
    told.pieces.push_back(piece_of(item));
  }
  CHECK((told.reason == "incomplete" || told.pieces.empty() || !told.pieces.back().name.ends_with(" cut")));
  const auto& usage = *response.find("usage");
  told.prompt = number_of(usage, "input_tokens");
  told.output = number_of(usage, "output_tokens");
  CHECK(number_of(usage, "total_tokens") == told.prompt + told.output);
  CHECK(number_of(*usage.find("input_tokens_details"), "cached_tokens") == 0);
  CHECK(number_of(*usage.find("output_tokens_details"), "reasoning_tokens") <= told.output);
  return told;
}

// What the items' own events tell, with their order checked.
struct Items {
  std::vector<Piece> pieces;
  std::vector<std::string> ids;
  std::string open, part;  // what of the last item is still to be closed

  void take(const NamedEvent& event) {
    const auto& [name, data] = event;
    const auto index = static_cast<std::size_t>(number_of(data, "output_index"));
    if (name == "response.output_item.added") {
      CHECK(open.empty());
      REQUIRE(index == pieces.size());
      const auto& item = *data.find("item");
      CHECK(text_of(item, "status") == "in_progress");
      ids.push_back(text_of(item, "id"));
      pieces.push_back({text_of(item, "type"), "", text_of(item, "call_id"), text_of(item, "name")});
      open = pieces.back().kind;
      return;
    }
    REQUIRE(index + 1 == pieces.size());
    if (name == "response.output_item.done") {
      CHECK(part.empty());
      CHECK(text_of(*data.find("item"), "id") == ids.back());
      const bool cut = text_of(*data.find("item"), "status") == "incomplete";
      if (cut) pieces.back().name += " cut";
      if (!cut || open != "function_call") CHECK(piece_of(*data.find("item")) == pieces.back());
      open.clear();
      return;
    }
    CHECK(text_of(data, "item_id") == ids.back());
    if (name == "response.content_part.added") {
      part = text_of(*data.find("part"), "type");
    } else if (name == "response.content_part.done") {
      CHECK(text_of(*data.find("part"), "text") == pieces.back().text);
      part.clear();
    } else {
      const std::string stem = open == "reasoning" ? "response.reasoning_text."
                               : open == "message" ? "response.output_text."
                                                   : "response.function_call_arguments.";
      CHECK((open == "function_call") == part.empty());
      if (name == stem + "delta") {
        pieces.back().text += text_of(data, "delta");
      } else {
        CHECK(name == stem + "done");
        CHECK(text_of(data, open == "function_call" ? "arguments" : "text") == pieces.back().text);
      }
    }
  }
};

Told from_response_stream(const Reply& reply) {
  CHECK(reply.status == 200);
  CHECK(reply.complete);
  const auto events = named_events(reply);
  REQUIRE(events.size() >= 3);
  for (std::size_t i = 0; i < events.size(); ++i)
    CHECK(number_of(events[i].data, "sequence_number") == static_cast<std::int64_t>(i));
  CHECK(events[0].name == "response.created");
  CHECK(events[1].name == "response.in_progress");
  const auto& created = *events[0].data.find("response");
  CHECK(text_of(created, "status") == "in_progress");
  CHECK(created.find("usage")->is_null());
  Items items;
  for (std::size_t i = 2; i + 1 < events.size(); ++i) items.take(events[i]);
  CHECK(items.open.empty());
  const auto& last = *events.back().data.find("response");
  CHECK(text_of(last, "id") == text_of(created, "id"));
  Told told = from_response(last);
  CHECK(events.back().name == "response." + told.reason);
  // A call that was cut short was shown, and is no part of the response.
  if (items.pieces.size() > told.pieces.size()) {
    CHECK(told.reason == "incomplete");
    items.pieces.pop_back();
  }
  CHECK(items.pieces == told.pieces);
  for (std::size_t i = 0; i < told.pieces.size(); ++i) CHECK(text_of(last.find("output")->items[i], "id") == items.ids[i]);
  return told;
}

Told ask(World& world, const std::string& body) {
  INFO(body);
  const Reply reply = world.post("/v1/responses", body);
  INFO(reply.body);
  REQUIRE(reply.status == 200);
  const Told whole = from_response(reply.json());
  Told stream = from_response_stream(world.post("/v1/responses", streamed(body)));
  CHECK(whole.id.starts_with("resp_"));
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

void refused(const Reply& reply, std::string_view param) {
  INFO(reply.body);
  CHECK(reply.status == 400);
  CHECK(reply.error_field("type") == "invalid_request_error");
  CHECK(reply.error_field("param") == param);
  if (param != "null") CHECK(reply.error_field("message").find(param) != std::string::npos);
}

}  // namespace

TEST_CASE("a response: thinking, text, and how it ended") {
  World world;
  world.model->script({.ids = plain_output("alpha beta")});
  const Told told = ask(world, body_of());
  CHECK(told.pieces == std::vector<Piece>{{"reasoning", "hm", "", ""}, {"message", "alpha beta", "", ""}});
  CHECK(told.reason == "completed");
  CHECK(told.prompt == static_cast<std::int64_t>(world.model->last_job().prompt.size()) - 3);
  const Told cut = ask(world, body_of(R"("max_output_tokens":3)"));
  CHECK(cut.reason == "incomplete");
  CHECK(cut.stop == "max_output_tokens");
  CHECK(world.model->last_job().max_tokens == 3);
}

TEST_CASE("an item that the tokens did not suffice for is incomplete, and the others are not") {
  World world;
  const auto told = [&](const std::string& output) {
    world.model->script({.ids = output_of(output)});
    std::string text;
    for (const auto& piece : ask(world, body_of(kTools)).pieces) text += piece.kind + piece.name + ";";
    return text;
  };
  CHECK(told("hm") == "reasoning cut;");
  CHECK(told("hm<|close|>think<|sep|>") == "reasoning;");
  CHECK(told("hm<|close|>think<|sep|><|open|>response<|sep|>") == "reasoning;");
  CHECK(told("hm<|close|>think<|sep|><|open|>response<|sep|>so") == "reasoning;message cut;");
  const std::string answer = "hm<|close|>think<|sep|><|open|>response<|sep|>so<|close|>response<|sep|>";
  CHECK(told(answer) == "reasoning;message;");
  CHECK(told(answer + "<|open|>tools<|sep|><|open|>call tool=\"add\" index=\"1\"<|sep|>") == "reasoning;message;");
  CHECK(told(answer + "<|close|>message<|sep|><|end_of_msg|>") == "reasoning;message;");
}

TEST_CASE("a response that calls functions, and what comes back into the next request") {
  World world;
  world.model->script({.ids = output_of(kTwoCalls)});
  const Told told = ask(world, body_of(kTools));
  CHECK(told.reason == "completed");
  REQUIRE(told.pieces.size() == 4);
  CHECK(told.pieces[2].kind == "function_call");
  CHECK(told.pieces[2].id == "add_0");
  CHECK(told.pieces[2].name == "add");
  CHECK(told.pieces[3] == Piece{"function_call", "{}", "now_1", "now"});

  const std::string chat =
      R"({"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"},)"
      R"({"role":"assistant","content":"I add.","reasoning_content":"let me see","tool_calls":[)"
      R"({"id":"add_0","type":"function","function":{"name":"add","arguments":"{\"a\":16}"}},)"
      R"({"id":"now_1","type":"function","function":{"name":"now","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"add_0","content":"91"},{"role":"tool","tool_call_id":"now_1","content":"noon"},)"
      R"({"role":"user","content":"go on"}],)" +
      kChatTools + "}";
  const std::string calls =
      R"({"type":"message","role":"assistant","content":[{"type":"output_text","text":"I add.","annotations":[]}]},)"
      R"({"type":"function_call","id":"fc_1","call_id":"add_0","name":"add","arguments":"{\"a\":16}"},)"
      R"({"type":"function_call","call_id":"now_1","name":"now","arguments":"{}"},)"
      R"({"type":"function_call_output","call_id":"add_0","output":"91"},)"
      R"({"type":"function_call_output","call_id":"now_1","output":[{"type":"input_text","text":"noon"}]},)"
      R"({"role":"user","content":"go on"}])";
  // Thinking is found again in whichever of its fields the client has kept it.
  for (const char* reasoning : {R"("summary":[],"content":[{"type":"reasoning_text","text":"let me see"}])",
                                R"("summary":[{"type":"summary_text","text":"let me see"}])",
                                R"("summary":[],"content":null,"encrypted_content":"k3:let me see")",
                                R"("summary":[{"type":"summary_text","text":"short"}],"encrypted_content":"k3:let me see")"}) {
    const std::string input = R"([{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"reasoning","id":"rs_1",)" +
                              std::string(reasoning) + "}," + calls;
    const std::string body = body_of(kTools + R"(,"instructions":"be brief")", input);
    CHECK(prompt_of(world, "/v1/responses", body) == prompt_of(world, "/v1/chat/completions", chat));
    CHECK(ask(world, body).pieces[2].id == "add_2");
  }
  // Of another's making: not read, and no error.
  const std::string foreign = R"([{"role":"user","content":"hi"},{"type":"reasoning","encrypted_content":"gAAAA"}])";
  CHECK(world.post("/v1/responses", body_of("", foreign)).status == 200);
}

TEST_CASE("thinking comes in the field that clients send back, where they ask for that") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const auto silent = world.post("/v1/responses", body_of()).json();
  CHECK(silent.find("output")->items[0].find("encrypted_content") == nullptr);
  const auto response = world.post("/v1/responses", body_of(R"("include":["reasoning.encrypted_content"])")).json();
  CHECK(text_of(response.find("output")->items[0], "encrypted_content") == "k3:hm");
}

TEST_CASE("turns of the assistant are told apart by what a turn may hold") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const std::string input =
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"assistant","content":"c"},)"
      R"({"type":"reasoning","content":[{"type":"reasoning_text","text":"d"}]},{"role":"developer","content":"e"}])";
  const std::string chat =
      R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"assistant","content":"c"},)"
      R"({"role":"assistant","content":"","reasoning_content":"d"},{"role":"system","content":"e"}]})";
  CHECK(prompt_of(world, "/v1/responses", body_of("", input)) == prompt_of(world, "/v1/chat/completions", chat));
}

TEST_CASE("each option of Responses is one of a chat") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const std::string hi = R"("messages":[{"role":"user","content":"hi"}])";
  const auto same = [&](const std::string& extra, const std::string& chat_extra) {
    const auto expected = prompt_of(world, "/v1/chat/completions", "{" + hi + (chat_extra.empty() ? "" : "," + chat_extra) + "}");
    CHECK(prompt_of(world, "/v1/responses", body_of(extra)) == expected);
  };
  same("", "");
  same(R"("reasoning":{"effort":"low","summary":"auto"})", R"("reasoning_effort":"low")");
  same(R"("reasoning":{"effort":"none"})", R"("reasoning_effort":"none")");
  same(R"("reasoning":{"effort":null},"instructions":null,"tools":null,"text":null)", "");
  same(R"("text":{"format":{"type":"text"},"verbosity":"low"})", "");
  same(R"("text":{"format":{"type":"json_object"}})", R"("response_format":{"type":"json_object"})");
  same(R"("text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}}})",
       R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}})");
  same(kTools + R"(,"tool_choice":"required")", kChatTools + R"(,"tool_choice":"required")");
  same(kTools + R"(,"tool_choice":{"type":"function","name":"now"})",
       kChatTools + R"(,"tool_choice":{"type":"function","function":{"name":"now"}})");
}

TEST_CASE("what a response repeats, and what is said of fields without a meaning here") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const Reply reply = world.post(
      "/v1/responses",
      body_of(
          R"("temperature":0.5,"top_p":0.25,"metadata":{"a":"b"},"user":"me","store":true,"seed":7,)"
          R"("prompt_cache_key":"k","include":[],"parallel_tool_calls":false,"instructions":"x",)"
          R"("tools":[{"type":"web_search"},{"type":"function","name":"f","parameters":{}},{"type":"namespace","name":"n","tools":[]}])"));
  REQUIRE(reply.status == 200);
  const auto response = reply.json();
  CHECK(response.find("temperature")->text == "0.5");
  CHECK(text_of(*response.find("metadata"), "a") == "b");
  CHECK(text_of(response, "instructions") == "x");
  CHECK(response.find("tools")->items.size() == 3);
  CHECK(!response.find("parallel_tool_calls")->boolean);
  CHECK(response.find("previous_response_id")->is_null());
  CHECK(text_of(response, "tool_choice") == "auto");
  CHECK(response.find("timings") != nullptr);
  CHECK(world.model->last_job().sampling.temperature == 0.5F);
  CHECK(world.model->last_job().sampling.seed == 7);
  CHECK(reply.headers.at("x-k3-ignored") == "user,prompt_cache_key,tools[0]:web_search,tools[2]:namespace");
}

TEST_CASE("what is wrong with a Responses request is told by its own names and places") {
  World world;
  const auto post = [&](const std::string& body) { return world.post("/v1/responses", body); };
  const auto input = [&](const std::string& item) { return post(body_of("", "[" + item + "]")); };
  refused(post("["), "null");
  refused(post("{}"), "input");
  refused(post(body_of("", "[]")), "input");
  refused(post(body_of("", "5")), "input");
  refused(input("5"), "input[0]");
  refused(input(R"({"role":"wizard","content":"x"})"), "input[0].role");
  refused(input(R"({"role":"user"})"), "input[0].content");
  refused(input(R"({"role":"user","content":[{"type":"input_text"}]})"), "input[0].content[0].text");
  refused(input(R"({"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image"}]})"), "input[0].content[1]");
  refused(input(R"({"role":"user","content":[{"type":"input_file"}]})"), "input[0].content[0].type");
  refused(input(R"({"type":"item_reference","id":"x"})"), "input[0].type");
  refused(input(R"({"type":"computer_call"})"), "input[0].type");
  refused(input(R"({})"), "input[0].type");
  refused(input(R"({"type":"reasoning","content":"x"})"), "input[0].content");
  refused(input(R"({"type":"function_call","call_id":"a","arguments":"{}"})"), "input[0].name");
  refused(input(R"({"type":"function_call","call_id":"a","name":"f"})"), "input[0].arguments");
  refused(input(R"({"type":"function_call","name":"f","arguments":"{}"})"), "input[0].call_id");
  refused(input(R"({"type":"function_call_output","call_id":"a"})"), "input[0].output");
  refused(input(R"({"role":"user","content":"x"},{"type":"function_call_output","call_id":"a","output":"x"})"), "input[1].call_id");
  for (const char* name : {"previous_response_id", "conversation", "prompt"})
    refused(post(body_of("\"" + std::string(name) + "\":\"x\"")), name);
  refused(post(body_of(R"("background":true)")), "background");
  CHECK(post(body_of(R"("previous_response_id":"x")")).error_field("message").find("send all of the conversation") !=
        std::string::npos);
  refused(post(body_of(R"("instructions":5)")), "instructions");
  refused(post(body_of(R"("max_output_tokens":0)")), "max_output_tokens");
  refused(post(body_of(R"("temperature":-1)")), "temperature");
  refused(post(body_of(R"("reasoning":"x")")), "reasoning");
  refused(post(body_of(R"("reasoning":{"effort":"best"})")), "reasoning.effort");
  refused(post(body_of(R"("text":{"format":{"type":"xml"}})")), "text.format.type");
  refused(post(body_of(R"("text":{"format":{"type":"json_schema","name":"n"}})")), "text.format.schema");
  refused(post(body_of(R"("text":{"format":{"type":"json_schema","schema":{}}})")), "text.format.name");
  refused(post(body_of(R"("tools":[{"type":"mcp"}])")), "tools[0].type");
  refused(post(body_of(R"("tools":[5])")), "tools[0]");
  refused(post(body_of(R"("tools":[{"type":"web_search"},{"type":"function"}])")), "tools[1].name");
  refused(post(body_of(R"("tools":[{"type":"function","name":"f","parameters":5}])")), "tools[0].parameters");
  refused(post(body_of(R"("tool_choice":"required")")), "tool_choice");
  refused(post(body_of(R"("tool_choice":{"type":"mcp"})")), "tool_choice.type");
  refused(post(body_of(R"("parallel_tool_calls":1)")), "parallel_tool_calls");
  CHECK(world.model->jobs_started() == 0);
}

TEST_CASE("recorded outputs make the same response, streamed and not, and however they are cut") {
  World world;
  std::ifstream file(K3_TEST_DATA "/mini_transcripts.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto record = json::parse(line).value();
    Script script;
    for (const auto& id : record.find("generated_ids")->items) script.ids.push_back(static_cast<std::int32_t>(id.as_int().value()));
    world.model->script(script);
    const bool thinks = record.find("message")->find("reasoning_content") != nullptr;
    ask(world, body_of(thinks ? "" : R"("reasoning":{"effort":"none"})"));
  }
  const auto ids = output_of(kTwoCalls);
  for (std::size_t length = 0; length <= ids.size(); ++length) {
    world.model->script({.ids = {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length)}});
    INFO(length);
    ask(world, body_of(kTools));
  }
}
