#include "model/layers/cut.hpp"

#include <vector>

#include "tests/catch.hpp"

using namespace k3::layers;

TEST_CASE("each output of each matrix is in one block") {
  for (const std::size_t rows : {1U, 4U, 5U}) {
    for (const std::size_t threads : {1U, 2U, 16U}) {
      for (const std::size_t columns : {32U, 7168U, 33792U}) {
        const std::vector<std::size_t> outputs = {1, 64, 100, 3072, 12288, 163840};
        std::size_t all = 0, blocks = 0;
        for (const std::size_t n : outputs) all += n;
        const CutPlan plan{all, columns, rows, threads};
        const auto cut_of = [&](std::size_t matrix) { return Cut(plan, outputs[matrix]); };
        std::vector<std::vector<int>> seen;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          seen.emplace_back(outputs[i]);
          blocks += cut_of(i).blocks();
        }
        std::size_t last = ~std::size_t{0};
        for (std::size_t i = 0; i < blocks; ++i) {
          const CutBlock block = block_at(i, outputs.size(), cut_of);
          REQUIRE(block.count > 0);
          REQUIRE(block.first % 64 == 0);  // activations are rounded in groups of 32, block by block
          REQUIRE(block.first + block.count <= outputs[block.matrix]);
          for (std::size_t o = block.first; o < block.first + block.count; ++o) ++seen[block.matrix][o];
          if (rows > 4) CHECK(block.count <= 64);
          CHECK(block.count * columns <= std::max(std::size_t{1} << 25, 64 * columns));
          last = block.count;
        }
        CHECK(last <= 256);
        for (const auto& matrix : seen) {
          CHECK(std::all_of(matrix.begin(), matrix.end(), [](int n) { return n == 1; }));
        }
      }
    }
  }
}
