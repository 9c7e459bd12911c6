// Which answers a request's grammar lets through, and how an answer is kept in it.
#include "model/generation/answer_grammar.hpp"
#include "model/generation/guide.hpp"
#include "tests/catch.hpp"

using namespace k3;
using generation::AnswerForm;
using generation::Guide;

namespace {

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer loaded = text::Tokenizer::load(K3_SOURCE_DIR "/tools/mini/model").value();
  return loaded;
}

std::vector<text::TokenId> ids_of(std::string_view text) { return tokenizer().encode(text, true).value(); }

auto read(const std::string& fields) {
  const std::string body = R"({"messages":[{"role":"user","content":"x"}],)" + fields + "}";
  return generation::answer_grammar(text::read_chat_request(json::parse(body).value()).value(), tokenizer().control());
}

AnswerForm form_of(const std::string& fields) {
  AnswerForm form;
  form.grammar = read(fields).value();
  form.trie = grammar::TokenTrie::of(tokenizer());
  return form;
}

// "" where all of it may be written and the answer may end there, else the rest that may not.
std::string refused(const std::string& fields, const std::string& answer) {
  const AnswerForm form = form_of(fields);
  REQUIRE(form.grammar != nullptr);
  grammar::Matcher matcher(form.grammar, form.trie);
  const auto ids = ids_of(answer);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!matcher.accept(ids[i])) return tokenizer().decode(std::span(ids).subspan(i));
  }
  return matcher.complete() ? "" : "incomplete";
}

const std::string end = "<|close|>message<|sep|><|end_of_msg|>";
const std::string answer_begins = "hm<|close|>think<|sep|><|open|>response<|sep|>";
const std::string response_ends = "<|close|>response<|sep|>";
const std::string off = R"("thinking":{"type":"disabled"},)";

std::string tools(const std::string& more) {
  return R"("tools":[{"type":"function","function":{"name":"look","strict":true,"parameters":{"type":"object","properties":{)"
         R"("at":{"type":["integer","null"]},"what":{"type":"string","enum":["a \"b\"","c"]},"more":{"type":"object"}},)"
         R"("required":["at"],"additionalProperties":false}}},{"type":"function","function":{"name":"go","parameters":{}}}])" +
         more;
}

std::string argument(const std::string& key, const std::string& type, const std::string& value) {
  return "<|open|>argument key=\"" + key + "\" type=\"" + type + "\"<|sep|>" + value + "<|close|>argument<|sep|>";
}
std::string call(const std::string& name, const std::string& arguments, const std::string& index = "1") {
  return "<|open|>call tool=\"" + name + "\" index=\"" + index + "\"<|sep|>" + arguments + "<|close|>call<|sep|>";
}
std::string calls(const std::string& all) { return "<|open|>tools<|sep|>" + all + "<|close|>tools<|sep|>"; }

}  // namespace

TEST_CASE("a request that demands nothing leaves its answer free") {
  CHECK(read(R"("n":1)").value() == nullptr);
  CHECK(read(R"("response_format":{"type":"text"})").value() == nullptr);
  CHECK(read(R"("tools":[{"type":"function","function":{"name":"go"}}],"tool_choice":"auto")").value() == nullptr);
}

TEST_CASE("F6: JSON is asked of the response channel, not of what is thought") {
  const std::string schema = R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object",)"
                             R"("properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}}})";
  CHECK(refused(schema, "no { json" + answer_begins + "{\"a\":5}" + response_ends + end).empty());
  CHECK(refused(off + schema, "{\"a\":5}" + response_ends + end).empty());
  CHECK(refused(schema, answer_begins + "{\"a\":\"5\"}" + response_ends + end).find("5\"}") != std::string::npos);
  CHECK(refused(schema, answer_begins + "{\"a\":5" + response_ends + end).starts_with("<|close|>"));
  // The thinking cannot be left in any other way.
  CHECK(refused(schema, "hm" + end).starts_with("message"));
  CHECK(refused(schema, "hm<|end_of_msg|>").starts_with("<|end_of_msg|>"));
  const std::string any = R"("response_format":{"type":"json_object"})";
  CHECK(refused(any, answer_begins + R"({"x":[1,{"y":null}],"z":"<|"})" + response_ends + end).empty());
  CHECK(!refused(any, answer_begins + "[1]" + response_ends + end).empty());
}

TEST_CASE("tool_choice: required, none, and one by name") {
  const std::string look = call("look", argument("at", "number", "5")), go = call("go", "");
  const std::string must = tools(R"(,"tool_choice":"required")");
  CHECK(refused(must, answer_begins + "I look." + response_ends + calls(look + go) + end).empty());
  CHECK(refused(must, answer_begins + "No." + response_ends + end).find("<|end_of_msg|>") != std::string::npos);
  CHECK(refused(must, answer_begins + response_ends + calls("") + end).starts_with("<|close|>"));
  CHECK(!refused(must, answer_begins + response_ends + calls(call("run", "")) + end).empty());
  const std::string never = tools(R"(,"tool_choice":"none")");
  CHECK(refused(never, answer_begins + "No." + response_ends + end).empty());
  CHECK(refused(never, answer_begins + "No." + response_ends + calls(go) + end).starts_with("<|open|>"));
  const std::string named = tools(R"(,"tool_choice":{"type":"function","function":{"name":"go"}})");
  CHECK(refused(named, answer_begins + response_ends + calls(go + call("go", "", "2")) + end).empty());
  CHECK(!refused(named, answer_begins + response_ends + calls(look) + end).empty());
  CHECK(refused(named, answer_begins + response_ends + end).find("<|end_of_msg|>") != std::string::npos);
}

TEST_CASE("parallel_tool_calls: false is one call at most") {
  const std::string one = tools(R"(,"parallel_tool_calls":false)");
  CHECK(refused(one, answer_begins + "No." + response_ends + end).empty());
  CHECK(refused(one, answer_begins + response_ends + calls(call("go", "")) + end).empty());
  CHECK(refused(one, answer_begins + response_ends + calls(call("go", "") + call("go", "", "2")) + end).starts_with("<|open|>"));
}

TEST_CASE("a strict tool gets the arguments that it declares, each of its type, and what it needs") {
  const auto with = [](const std::string& arguments) {
    return refused(tools(""), answer_begins + response_ends + calls(call("look", arguments)) + end);
  };
  CHECK(with(argument("at", "number", "5")).empty());
  CHECK(with(argument("at", "null", "null") + argument("what", "string", "a \"b\"") + argument("more", "object", "{\"k\":[1]}"))
            .empty());
  CHECK(!with("").empty());                               // `at` is required
  CHECK(!with(argument("at", "number", "5.5")).empty());  // an integer
  CHECK(!with(argument("at", "string", "5")).empty());    // no string
  CHECK(!with(argument("at", "number", "5") + argument("what", "string", "d")).empty());
  CHECK(!with(argument("at", "number", "5") + argument("other", "number", "5")).empty());
  CHECK(!with(argument("at", "number", "5") + argument("at", "number", "5")).empty());
  // A tool that is not strict takes any, but each is what it says it is.
  const auto free = [](const std::string& arguments) {
    return refused(tools(""), answer_begins + response_ends + calls(call("go", arguments)) + end);
  };
  CHECK(free(argument("x", "string", "{ \"") + argument("y", "array", "[1,\"a\"]")).empty());
  CHECK(!free(argument("x", "array", "[1,]")).empty());
  CHECK(!free(argument("x", "date", "1")).empty());
}

TEST_CASE("beside tools, an answer in JSON is either the JSON or calls") {
  const std::string both = tools(R"(,"response_format":{"type":"json_object"})");
  CHECK(refused(both, answer_begins + "{}" + response_ends + end).empty());
  CHECK(refused(both, answer_begins + response_ends + calls(call("go", "")) + end).empty());
  CHECK(!refused(both, answer_begins + "{}" + response_ends + calls(call("go", "")) + end).empty());
}

TEST_CASE("what cannot be kept to is refused with its place") {
  const auto format = read(R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object",)"
                           R"("properties":{"a":{"type":"array","uniqueItems":true}}}}})");
  REQUIRE(format.has_error());
  CHECK(format.error().param == "response_format.json_schema.schema");
  CHECK(format.error().message.find("/properties/a/uniqueItems") != std::string::npos);
  const auto strict = read(R"("tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object",)"
                           R"("properties":{"a":{"type":"string","contentEncoding":"x"}}}}}])");
  REQUIRE(strict.has_error());
  CHECK(strict.error().param == "tools[0].function.parameters");
  CHECK(strict.error().message.find("contentEncoding") != std::string::npos);
  // Of a tool that is not strict the schema is the model's to read.
  CHECK(
      read(R"("tools":[{"type":"function","function":{"name":"f","parameters":{"contentEncoding":"x"}}}],"tool_choice":"required")")
          .has_value());
}

TEST_CASE("thinking ends when its budget is used up, and the answer follows") {
  const auto end_ids = generation::thinking_end(tokenizer());
  CHECK(tokenizer().decode(end_ids.ids) == "<|close|>think<|sep|><|open|>response<|sep|>");
  for (const std::size_t budget : {0U, 1U, 3U}) {
    AnswerForm form;
    form.thinking = end_ids;
    form.thinking_budget = budget;
    Guide guide(form);
    const auto thought = ids_of("one two three four");
    REQUIRE(thought.size() > 3);
    for (std::size_t i = 0; i < budget; ++i) {
      CHECK(!guide.forced());
      CHECK(guide.accept(thought[i]));
    }
    for (const text::TokenId id : end_ids.ids) {
      REQUIRE(guide.forced() == id);
      CHECK(guide.accept(id));
    }
    CHECK(!guide.forced());
    guide.end_thinking();  // it has ended
    CHECK(!guide.forced());
  }
}

TEST_CASE("thinking is not ended within a code point, unless the model never ends that") {
  AnswerForm form;
  form.thinking = generation::thinking_end(tokenizer());
  form.trie = grammar::TokenTrie::of(tokenizer());
  const auto byte = [](const char* text) {
    for (text::TokenId id = 0; id < tokenizer().vocabulary_size(); ++id) {
      if (!tokenizer().is_reserved(id) && tokenizer().bytes(id) == text) return id;
    }
    return text::TokenId{-1};
  };
  // Of four bytes, with a budget that ends before, within and behind it, or ended by hand in its middle.
  const text::TokenId smile[] = {byte("\xf0"), byte("\x9f"), byte("\x98"), byte("\x80")};
  for (std::size_t budget = 0; budget <= 5; ++budget) {
    const bool by_hand = budget == 5;
    if (!by_hand) form.thinking_budget = budget;
    if (by_hand) form.thinking_budget.reset();
    INFO(budget);
    Guide guide(form);
    std::size_t thought = 0;
    for (; thought < 4 && !guide.forced(); ++thought) {
      CHECK(guide.accept(smile[thought]));
      if (by_hand && thought == 1) guide.end_thinking();
    }
    CHECK(thought == (budget == 0 ? 0 : 4));
    CHECK(guide.forced() == form.thinking->ids.front());
  }
  form.thinking_budget = 1;
  Guide guide(form);
  for (int i = 0; i < 4; ++i) {
    CHECK(!guide.forced());
    CHECK(guide.accept(smile[0]));
  }
  CHECK(guide.forced() == form.thinking->ids.front());
}

TEST_CASE("thinking that has ended by itself, or never began, is not ended again") {
  AnswerForm form;
  form.thinking = generation::thinking_end(tokenizer());
  form.thinking_budget = 2;
  Guide guide(form);
  for (const text::TokenId id : ids_of("a<|open|>response<|sep|>b c d e")) {
    CHECK(!guide.forced());
    CHECK(guide.accept(id));
  }
  Guide none{AnswerForm{}};
  none.end_thinking();
  CHECK(!none.forced());
  CHECK(none.allowed(1).empty());
}

TEST_CASE("with few tokens left an answer is brought to its end") {
  const AnswerForm form = form_of(off + R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{)"
                                        R"("type":"array","items":{"type":"string"}}}})");
  // The worst writer: of what may come next always the last.
  for (const std::size_t most : {40U, 60U, 200U}) {
    Guide guide(form);
    std::string written;
    bool complete = false;
    for (std::size_t left = most; left > 0 && !complete; --left) {
      const auto allowed = guide.allowed(left);
      text::TokenId id = -1;
      for (std::size_t i = 0; i < allowed.size() * 64; ++i) {
        if ((allowed[i / 64] >> (i % 64) & 1) != 0) id = static_cast<text::TokenId>(i);
      }
      REQUIRE(id >= 0);
      REQUIRE(guide.accept(id));
      complete = id == tokenizer().control().end_of_message;
      if (!tokenizer().is_reserved(id)) written += tokenizer().bytes(id);
    }
    INFO(written);
    CHECK(complete);
    CHECK(json::parse(written.substr(0, written.rfind("response"))).has_value());
  }
}
