// Reads Prometheus' text format as strictly as its own parser does, and then some.
#pragma once

#include <charconv>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.hpp"

namespace k3::test {

struct Scrape {
  std::map<std::string, double> samples;     // by series, as written: name{labels}
  std::map<std::string, std::string> types;  // of families

  double at(const std::string& series) const {
    INFO("series " << series);
    REQUIRE(samples.contains(series));
    return samples.at(series);
  }
  // Summed over the labels.
  double sum(std::string_view name) const {
    double total = 0;
    for (const auto& [series, value] : samples) total += series.substr(0, series.find('{')) == name ? value : 0;
    return total;
  }
};

inline bool is_name(std::string_view name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == std::string_view::npos &&
         name[0] > '9';
}

// The families of a histogram's samples have a suffix.
inline std::string family_of(const Scrape& scrape, const std::string& name) {
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string family = name.substr(0, name.size() - suffix.size());
    if (scrape.types.contains(family) && scrape.types.at(family) == "histogram") return family;
  }
  return name;
}

inline Scrape read_metrics(const std::string& text) {
  Scrape scrape;
  std::set<std::string> helped, ended;
  std::string open, line;
  REQUIRE(text.ends_with("\n"));
  for (std::istringstream lines(text); std::getline(lines, line);) {
    INFO("line: " << line);
    std::istringstream words(line);
    std::string hash, keyword, name;
    if (line.starts_with("# ")) {
      words >> hash >> keyword >> name;
      REQUIRE(is_name(name));
      if (keyword == "HELP") {
        REQUIRE(helped.insert(name).second);
        ended.insert(open);
        open = name;
        REQUIRE(line.size() > 8 + name.size());
        continue;
      }
      REQUIRE(keyword == "TYPE");
      REQUIRE(open == name);
      std::string type;
      words >> type;
      REQUIRE((type == "counter" || type == "gauge" || type == "histogram"));
      REQUIRE((type == "counter") == name.ends_with("_total"));
      scrape.types[name] = type;
      continue;
    }
    const std::size_t space = line.rfind(' ');
    REQUIRE(space != std::string::npos);
    const std::string series = line.substr(0, space);
    const std::size_t brace = series.find('{');
    REQUIRE((brace == std::string::npos) == (series.back() != '}'));
    const std::string base = series.substr(0, brace);
    REQUIRE(is_name(base));
    // All samples of a family stand together, below its HELP and TYPE.
    REQUIRE(family_of(scrape, base) == open);
    REQUIRE(scrape.types.contains(open));
    REQUIRE_FALSE(ended.contains(open));
    double value = -1;
    const auto [end, status] = std::from_chars(line.data() + space + 1, line.data() + line.size(), value);
    REQUIRE((status == std::errc{} && end == line.data() + line.size()));
    REQUIRE(value >= 0);
    REQUIRE(scrape.samples.emplace(series, value).second);
  }
  for (const std::string& name : helped) REQUIRE(scrape.types.contains(name));
  return scrape;
}

// What has been counted stays counted: no series of a counter or histogram is gone or has fallen.
inline void check_no_fall(const Scrape& before, const Scrape& after) {
  for (const auto& [series, value] : before.samples) {
    const std::string family = family_of(before, series.substr(0, series.find('{')));
    if (before.types.at(family) == "gauge") continue;
    INFO("series " << series);
    CHECK(after.at(series) >= value);
  }
}

}  // namespace k3::test
