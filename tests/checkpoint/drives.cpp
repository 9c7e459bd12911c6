// Shards that lie in several directories: found, compared, read from whichever copy is good.
#include <array>
#include <atomic>
#include <thread>

#include "model/checkpoint/copies.hpp"
#include "model/checkpoint/pieces.hpp"
#include "model/checkpoint/verify.hpp"
#include "model/checkpoint/weights.hpp"
#include "tests/catch.hpp"
#include "tests/checkpoint/support.hpp"

using namespace k3;
using namespace k3::checkpoint;
using namespace k3::test;

namespace {

// The tiny model, and an empty directory beside it.
struct TwoDrives {
  TinyCopy model;
  TempDir drive;

  fs::path other(int number) const { return drive.path() / shard_name(number); }
  void move(int number) const {
    copy(number);
    fs::remove(model.shard(number));
  }
  void copy(int number) const { fs::copy_file(model.shard(number), other(number)); }
  Result<Checkpoint> open() const { return open({drive.path()}); }
  Result<Checkpoint> open(const std::vector<fs::path>& others) const { return Checkpoint::open(model.path(), others); }
  std::string refusal() const { return refusal({drive.path()}); }
  std::string refusal(const std::vector<fs::path>& others) const {
    const auto opened = open(others);
    REQUIRE_FALSE(opened.has_value());
    return opened.error().describe();
  }
};

const File& file_named(const Checkpoint& checkpoint, int number) {
  for (const File& file : checkpoint.files()) {
    if (file.path.filename() == shard_name(number)) return file;
  }
  throw std::runtime_error("no such shard");
}

std::string bytes_of(const Matrix& matrix) {
  return {static_cast<const char*>(matrix.data), matrix.rows * matrix.columns * sizeof(std::uint16_t)};
}

}  // namespace

TEST_CASE("a shard may lie in another directory, or in both") {
  TwoDrives drives;
  drives.move(2);
  drives.copy(3);
  const auto opened = drives.open();
  REQUIRE(opened.has_value());
  CHECK(opened->files().size() == 14);
  CHECK(file_named(*opened, 2).path == drives.other(2));
  CHECK(file_named(*opened, 2).more.empty());
  REQUIRE(file_named(*opened, 3).more.size() == 1);
  CHECK(file_named(*opened, 3).path == drives.model.shard(3));
  CHECK(file_named(*opened, 3).more[0].path == drives.other(3));
  CHECK(file_named(*opened, 3).more[0].drive == file_named(*opened, 2).drive);
  CHECK(file_named(*opened, 3).drive != file_named(*opened, 2).drive);
  CHECK(opened->left_out().empty());
  CHECK(copies_of(file_named(*opened, 3)).size() == 2);
  CHECK(one_by_one(opened->files()).size() == 15);
}

TEST_CASE("a damaged copy is left out where a good one is, and named") {
  TwoDrives drives;
  drives.copy(2);
  drives.copy(3);
  fs::resize_file(drives.model.shard(2), 1000);
  spill(drives.other(3), std::string(4096, 'x'));
  const auto opened = drives.open();
  REQUIRE(opened.has_value());
  CHECK(file_named(*opened, 2).path == drives.other(2));
  CHECK(file_named(*opened, 2).more.empty());
  CHECK(file_named(*opened, 3).more.empty());
  REQUIRE(opened->left_out().size() == 2);
  CHECK(opened->left_out()[0].file == drives.model.shard(2).string());
  CHECK(opened->left_out()[1].file == drives.other(3).string());
}

TEST_CASE("a shard that no directory has good is an error") {
  TwoDrives drives;
  for (const int number : {2, 3, 4}) drives.copy(number);
  fs::remove(drives.model.shard(2));
  fs::remove(drives.other(2));
  fs::resize_file(drives.model.shard(3), 1000);
  fs::resize_file(drives.other(3), 1000);
  const auto message = drives.refusal();
  CHECK(contains(message, "2 of 14 shards"));
  CHECK(contains(message, shard_name(2) + ": missing in every directory"));
  CHECK(contains(message, shard_name(3) + ": the file is truncated [" + drives.model.shard(3).string()));
  CHECK_FALSE(contains(message, shard_name(4)));
}

TEST_CASE("copies that are good and differ are an error that names both") {
  TwoDrives drives;
  drives.copy(2);
  SECTION("in size") {
    fs::remove(drives.other(2));
    fs::copy_file(drives.model.shard(14), drives.other(2));
    CHECK(contains(drives.refusal(), "differ in size"));
  }
  SECTION("in their headers") {
    std::string header = header_of(drives.other(2));
    replace(header, "BF16", "F16 ");
    replace(header, "F16 \"", "F16\" ");
    set_header(drives.other(2), header);
    CHECK(contains(drives.refusal(), "headers differ"));
  }
  const auto message = drives.refusal();
  CHECK(contains(message, drives.model.shard(2).string()));
  CHECK(contains(message, drives.other(2).string()));
}

TEST_CASE("a list of directories is checked") {
  TwoDrives drives;
  drives.move(2);
  CHECK(contains(drives.refusal({drives.drive.path(), drives.drive.path() / "absent"}), "absent"));
  CHECK(contains(drives.refusal({drives.drive.path(), drives.model.shard(3)}), "is not there"));
  CHECK(contains(drives.refusal({drives.drive.path(), drives.drive.path() / "."}), "named twice"));
  std::vector<fs::path> many;
  for (std::size_t i = 0; i < most_directories; ++i) {
    many.push_back(drives.drive.path() / std::to_string(i));
    fs::create_directory(many.back());
  }
  CHECK(contains(drives.refusal(many), "at most 32"));

  const auto own = drives.open({drives.model.path(), drives.drive.path()});  // the model's own directory counts once
  REQUIRE(own.has_value());
  CHECK(one_by_one(own->files()).size() == 14);
  CHECK(own->left_out().empty());
  TempDir empty;  // a drive that is not mounted looks like this
  const auto useless = drives.open({drives.drive.path(), empty.path()});
  REQUIRE(useless.has_value());
  REQUIRE(useless->left_out().size() == 1);
  CHECK(useless->left_out()[0].file == empty.path().string());
}

TEST_CASE("a link to a copy is not another copy, and lies on the drive it leads to") {
  TwoDrives drives;
  drives.move(2);
  fs::create_symlink(drives.other(2), drives.model.shard(2));
  const auto opened = drives.open();
  REQUIRE(opened.has_value());
  CHECK(one_by_one(opened->files()).size() == 14);
  CHECK(file_named(*opened, 2).drive != file_named(*opened, 3).drive);
  CHECK(opened->left_out().empty());
}

TEST_CASE("the trunk is the same from one directory and from several, and when one fails") {
  TwoDrives drives;
  for (int number = 1; number <= 14; ++number) drives.copy(number);
  for (const int number : {1, 5, 9}) fs::remove(drives.model.shard(number));
  const auto opened = drives.open();
  REQUIRE(opened.has_value());
  const auto expected = load_weights(Checkpoint::open(tiny_model).value(), 2, 0, {}, {}).value();
  const auto same = [&] {
    const auto weights = load_weights(*opened, 2, 0, {}, {});
    REQUIRE(weights.has_value());
    CHECK(bytes_of(weights->head) == bytes_of(expected.head));
    CHECK(weights->final_norm == expected.final_norm);
    CHECK(weights->layers[2].input_norm == expected.layers[2].input_norm);
    CHECK(bytes_of(std::get<KdaWeights>(weights->layers[2].attention).q) ==
          bytes_of(std::get<KdaWeights>(expected.layers[2].attention).q));
  };
  same();
  // Cut behind the header, after the copies were compared: what a failing drive looks like from here.
  for (const int number : {2, 3, 14}) fs::resize_file(drives.model.shard(number), 8 + header_of(drives.other(number)).size());
  fs::remove(drives.other(4));
  same();
  fs::resize_file(drives.other(14), 8 + header_of(drives.other(14)).size());
  CHECK(load_weights(*opened, 2, 0, {}, {}).has_error());
}

TEST_CASE("pieces go to both drives, and a copy that fails leaves them to the other") {
  TwoDrives drives;
  drives.copy(2);
  const File file = file_named(drives.open().value(), 2);
  const std::vector<File> files{file};
  std::vector<Piece> pieces;
  for (std::uint64_t i = 0; i < 40; ++i) pieces.push_back({0, i, 1, i});
  std::atomic<int> first{0}, second{0}, failing{0};
  std::array<std::atomic<int>, 40> done{};
  const PieceWork work = [&](const Piece& piece, const FileHandle&, const std::string& name) -> Result<void> {
    if (failing != 0 && (failing == 2 || name == file.path.string())) return fail(ErrorCode::io, "broken " + name);
    ++(name == file.path.string() ? first : second);
    ++done[piece.tag];
    // Whoever has the first piece keeps its drive busy until the other thread has done another one.
    while (piece.tag == 0 && first + second < 2) std::this_thread::yield();
    return {};
  };
  REQUIRE(for_each_piece(files, pieces, 2, work, {}).has_value());
  CHECK(first + second == 40);
  CHECK(second > 0);
  failing = 1;
  first = second = 0;
  REQUIRE(for_each_piece(files, pieces, 2, work, {}).has_value());
  CHECK(first == 0);
  CHECK(second == 40);
  for (const auto& times : done) CHECK(times == 2);
  failing = 2;
  CHECK(contains(for_each_piece(files, pieces, 2, work, {}).error().message, "broken"));
}

TEST_CASE("verify reads every copy and names the one that differs") {
  TwoDrives drives;
  for (const int number : {2, 3}) drives.copy(number);
  const std::vector<fs::path> others{drives.drive.path()};
  const auto run = [&](bool full) { return verify(drives.model.path(), full, 2, {}, others); };
  CHECK(run(true).clean());
  CHECK(run(true).files == 16);
  CHECK(run(false).clean());
  const auto size = fs::file_size(drives.other(3));
  std::fstream(drives.other(3), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(size - 40))
      .put(1);
  CHECK(run(false).clean());
  const auto report = run(true);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].file == drives.other(3).string());
  CHECK(contains(report.findings[0].message, drives.model.shard(3).string()));
  fs::resize_file(drives.other(2), size / 2);
  CHECK_FALSE(run(false).clean());
}
