// Experts that cannot be read while requests are served: a request that needs one fails and says why, and that is all that happens.
#include <stdlib.h>

#include <cstring>
#include <fstream>

#include "tests/faults/house.hpp"

using namespace k3;
using namespace k3::faults;

namespace {

const std::filesystem::path kMini = K3_SOURCE_DIR "/tools/mini/model";

// A copy of the small model that may be damaged.
class Copy {
 public:
  Copy() {
    std::string name = (std::filesystem::temp_directory_path() / "k3_faults_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
    std::filesystem::copy(kMini, path_, std::filesystem::copy_options::recursive);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Cuts a file short in place, and puts back what was cut off: whoever has it open sees both.
class Cut {
 public:
  Cut(std::filesystem::path file, std::uint64_t at) : file_(std::move(file)), at_(at) {
    std::ifstream in(file_, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(at));
    rest_.assign(std::istreambuf_iterator<char>(in), {});
    REQUIRE_FALSE(rest_.empty());
    std::filesystem::resize_file(file_, at);
  }
  void undo() const {
    std::fstream out(file_, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<std::streamoff>(at_));
    out << rest_;
    REQUIRE(out.flush().good());
  }

 private:
  const std::filesystem::path file_;
  const std::uint64_t at_;
  std::string rest_;
};

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string error_of(const test::Reply& stream) {
  CHECK(stream.status == 200);
  CHECK_FALSE(has(stream.body, "[DONE]"));
  CHECK_FALSE(has(stream.body, "\"finish_reason\":\""));
  const json::Value last = json::parse(stream.events().back()).value();
  REQUIRE(last.find("error") != nullptr);
  CHECK(last.find("error")->find("code")->text == "engine_failed");
  return last.find("error")->find("message")->text;
}

// A place that `first` reads three times or more, and `second` never.
std::optional<Place> only_in(const std::map<Place, std::size_t>& first, const std::map<Place, std::size_t>& second) {
  for (const auto& [place, count] : first) {
    if (count >= 3 && !second.contains(place)) return place;
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("a shard that is cut short fails requests with file, place and sizes; put right, the same answer comes again") {
  const Copy copy;
  const House house(copy.path());
  const std::string before = content_of(house.post("/v1/chat/completions", question("What is the capital of France?")));
  const auto opened = checkpoint::Checkpoint::open(copy.path()).value();
  const experts::Layout layout = experts::layout_of(opened);
  // The last layer's experts: the layers before it have done their work by then.
  const experts::Piece& piece = layout.places.back()[0];
  std::uint64_t begin = piece.offset;
  for (std::size_t i = layout.places.size() - layout.experts; i < layout.places.size(); ++i) {
    for (const experts::Piece& other : layout.places[i]) {
      if (other.file == piece.file) begin = std::min(begin, other.offset);
    }
  }
  const std::filesystem::path shard = layout.files[piece.file].path;
  const Cut cut(shard, begin);
  for (const bool stream : {false, true, false}) {
    const test::Reply reply = house.post("/v1/chat/completions", question("What is the capital of France?", stream));
    if (!stream) CHECK(reply.status == 500);
    const std::string message = stream ? error_of(reply) : reply.error_field("message");
    INFO(message);
    CHECK(has(message, "the file ends within expert "));
    CHECK(has(message, " of layer "));
    CHECK(has(message, "[" + shard.filename().string() + " at byte "));
    CHECK_FALSE(has(message, copy.path().string()));  // where it lies is the server's business, and in its log
    CHECK(has(message, "expected "));
    CHECK(has(message, "got "));
    CHECK(house.get("/health").status == 200);
  }
  cut.undo();
  CHECK(content_of(house.post("/v1/chat/completions", question("What is the capital of France?"))) == before);
  CHECK(content_of_stream(house.post("/v1/chat/completions", question("What is the capital of France?", true))) == before);
  CHECK(house.scrape().at("k3_expert_read_errors_total") >= 3);
}

TEST_CASE("an expert that cannot be read in mid-answer fails that answer, not another, and is read again next time") {
  const auto drive = std::make_shared<Drive>();
  const House house(kMini, drive);
  const std::string path = "/v1/chat/completions", one = "What is the capital of France?";
  // So short that it uses few experts.
  const std::string other = test::request("POST", "/v1/completions", R"({"prompt":"x","max_tokens":3,"temperature":0})");
  const auto text_of = [](const test::Reply& reply) {
    REQUIRE(reply.status == 200);
    return reply.json().find("choices")->items[0].find("text")->text;
  };
  const std::string one_before = content_of(house.post(path, question(one)));
  const auto one_reads = drive->take_reads();
  test::Client undisturbed(house.server->port());
  undisturbed.send(other);
  const std::string other_before = text_of(undisturbed.reply());
  const auto place = only_in(one_reads, drive->take_reads());
  REQUIRE(place.has_value());
  // Good for the prompt, whose step reads it once at most.
  drive->fail(*place, EIO, 1);
  test::Client first(house.server->port()), second(house.server->port());
  first.send(test::request("POST", path, question(one, true)));
  second.send(other);
  const test::Reply failed = first.reply();
  const std::string message = error_of(failed);
  INFO(message);
  CHECK(has(message, "cannot read expert "));
  CHECK(has(message, std::strerror(EIO)));
  CHECK(has(failed.body, "_content\":"));  // it had begun to answer
  CHECK(first.closed());
  CHECK(text_of(second.reply()) == other_before);
  CHECK(house.post(path, question(one)).status == 500);
  drive->repair();
  CHECK(content_of(house.post(path, question(one))) == one_before);
  CHECK(house.scrape().at("k3_expert_read_errors_total") >= 2);
}
