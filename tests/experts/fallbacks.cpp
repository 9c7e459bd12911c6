// What kernels and containers refuse, refused for real: a child process under a system-call filter reads every expert all the same.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <sstream>

#include "tests/experts/fixture.hpp"

namespace k3::experts::test {

namespace {

constexpr std::uint32_t low_half(std::size_t argument) {
  return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t));
}
constexpr sock_filter load(std::uint32_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
constexpr sock_filter answer(std::uint32_t what) { return BPF_STMT(BPF_RET | BPF_K, what); }

// Which calls fail, and how.
struct Refusal {
  const char* what;
  long call;
  std::uint16_t test;  // BPF_JEQ or BPF_JSET, of the argument with `value`
  std::size_t argument;
  std::uint32_t value;
  int error;
  const char* backend;  // what the stream then reads with
  std::size_t warnings = 0;
};

bool install(const Refusal& refusal) {
  std::array<sock_filter, 6> program{
      load(offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(refusal.call), 0, 3),
      load(low_half(refusal.argument)),
      BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | refusal.test | BPF_K), refusal.value, 0, 1),
      answer(SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(refusal.error)),
      answer(SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{program.size(), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return false;
  // Called so that it could not work anyway, it has to fail in the filter's way.
  std::array<long, 3> arguments{};
  arguments[refusal.argument] = refusal.value;
  return ::syscall(refusal.call, arguments[0], arguments[1], arguments[2], 0, 0) < 0 && errno == refusal.error;
}

enum Outcome : int { good, no_filter, not_opened, other_backend, other_warnings, wrong_bytes };

Outcome read_everything(const World& world, const Refusal& refusal) {
  std::ostringstream log;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log);
  sink->set_level(spdlog::level::warn);
  sink->set_pattern("%v");
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("fallbacks", sink));
  if (!install(refusal)) return no_filter;

  asio::io_context context{1};
  StreamOptions options;
  options.budget_bytes = 3 * world.slot_bytes();
  const ReaderFactory factory = [&](const ReaderSetup& setup) { return make_system_reader(setup, options.backend); };
  const auto stream = open_stream(world.layout, context, options, factory);
  if (!stream) return not_opened;
  if ((*stream)->backend() != refusal.backend) return other_backend;
  for (std::uint32_t layer = 1; layer <= 2; ++layer) {
    const std::vector<ExpertKey> keys{{layer, 0}, {layer, 1}, {layer, 2}, {layer, 3}};
    (*stream)->request(keys);
    for (const ExpertKey key : keys) {
      const auto lease = get(context, **stream, key);
      if (!lease || !world.holds(lease->bytes(), key)) return wrong_bytes;
    }
  }
  const std::string lines = log.str();
  const auto warned = static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n'));
  return warned == refusal.warnings ? good : other_warnings;
}

// In a process of its own, since a filter cannot be taken off again.
int in_child(const World& world, const Refusal& refusal) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(read_everything(world, refusal));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) REQUIRE(errno == EINTR);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("whatever the kernel refuses, every expert's bytes come") {
  const auto memory = SlotMemory::make(kAlignment).value();
  if (!make_ring_reader({{}, memory.data(), 1, kAlignment, 4, 1})) {
    WARN("io_uring is refused on this machine: nothing more to refuse");
    return;
  }
  const auto setup = [](int error) { return Refusal{"rings", __NR_io_uring_setup, BPF_JGE, 0, 0, error, "pread"}; };
  const auto registering = [](const char* what, std::uint32_t operation, const char* backend) {
    return Refusal{what, __NR_io_uring_register, BPF_JEQ, 1, operation, EPERM, backend};
  };
  const std::vector<Refusal> refusals{
      setup(ENOSYS),
      setup(EPERM),
      registering("the probe", IORING_REGISTER_PROBE, "pread"),
      registering("the eventfd", IORING_REGISTER_EVENTFD, "pread"),
      registering("registered files", IORING_REGISTER_FILES, "io_uring"),
      registering("a table of buffers", IORING_REGISTER_BUFFERS2, "io_uring"),
      registering("a buffer in the table", IORING_REGISTER_BUFFERS_UPDATE, "io_uring"),
      {"direct reads", __NR_openat, BPF_JSET, 2, O_DIRECT, EINVAL, "io_uring", 1},
  };
  for (const Placement placement : {Placement::together, Placement::two_files}) {
    const World world(placement);
    for (const Refusal& refusal : refusals) {
      INFO("refused: " << refusal.what << ", errno " << refusal.error);
      CHECK(in_child(world, refusal) == good);
    }
  }
}

}  // namespace k3::experts::test
