// An expert of a prepared container is one read.
#include "model/checkpoint/repack.hpp"
#include "model/experts/layout.hpp"
#include "model/experts/windows.hpp"
#include "tests/experts/fixture.hpp"

namespace k3::experts {

TEST_CASE("each expert of a container lies in one window, one after the other by id") {
  const test::TemporaryDirectory directory;
  checkpoint::RepackOptions options;
  options.source = std::filesystem::path(K3_TEST_DATA) / "tiny" / "model";
  options.destination = directory.path() / "container";
  REQUIRE(checkpoint::repack(options).has_value());
  const auto container = checkpoint::Checkpoint::open(options.destination).value();
  const Layout layout = layout_of(container);
  REQUIRE(layout.places.size() == 12 * 12);
  for (std::uint32_t layer = 1; layer < 13; ++layer) {
    for (std::uint32_t expert = 0; expert < 12; ++expert) {
      const WindowPlan plan = plan_windows(layout.places[layout.index({layer, expert})]);
      REQUIRE(plan.count == 1);
      const std::uint64_t begin = plan.windows[0].offset + plan.part_at[0];
      CHECK(begin == layout.places[layout.index({layer, 0})][0].offset + expert * container.expert_bytes());
    }
  }
}

}  // namespace k3::experts
