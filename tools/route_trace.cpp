#include "tools/route_trace.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/text/json.hpp"
#include "tools/input_output.hpp"

namespace k3::cli {
namespace {

constexpr std::int64_t most_experts = 1 << 16;  // in a layer; the released model has 896

Error not_routes(const std::string& path, std::string expected, std::string got) {
  Error error = fail(ErrorCode::invalid_argument, "no trace of expert choices");
  error.file = path;
  error.expected = std::move(expected);
  error.got = std::move(got);
  return error;
}

// One token's choice in one layer, appended to `routes`.
Result<void> append(const json::Value& chosen, const std::string& where, const std::string& path, Routes& routes) {
  if (!chosen.is_array() || chosen.items.empty()) return not_routes(path, "a list of expert ids", where + " is none");
  if (routes.per_token == 0) routes.per_token = chosen.items.size();
  if (chosen.items.size() != routes.per_token) {
    return not_routes(path, fmt::format("{} experts everywhere", routes.per_token),
                      fmt::format("{} of {}", chosen.items.size(), where));
  }
  const std::size_t begin = routes.ids.size();
  for (const json::Value& item : chosen.items) {
    const auto id = item.as_int();
    if (id.has_error() || *id < 0 || *id >= most_experts) {
      return not_routes(path, fmt::format("ids from 0 to {}", most_experts - 1), where + " has another");
    }
    if (std::find(routes.ids.begin() + static_cast<std::ptrdiff_t>(begin), routes.ids.end(), *id) != routes.ids.end()) {
      return not_routes(path, "different experts", fmt::format("{} has {} twice", where, *id));
    }
    routes.ids.push_back(static_cast<std::uint32_t>(*id));
  }
  return {};
}

}  // namespace

Result<Routes> read_routes(const std::string& path) {
  const auto text = read_all(path);
  if (text.has_error()) return text.error();
  const auto document = json::parse(*text);
  if (document.has_error()) {
    Error error = document.error();
    error.file = path;
    return error;
  }
  const json::Value* tokens = document->find("tokens");
  if (tokens == nullptr || !tokens->is_array() || tokens->items.empty())
    return not_routes(path, "an object with \"tokens\": [token][layer][expert ids]", "none");
  Routes routes;
  routes.layers = tokens->items.front().items.size();
  for (std::size_t token = 0; token < tokens->items.size(); ++token) {
    const json::Value& layers = tokens->items[token];
    if (routes.layers == 0) return not_routes(path, "at least one layer of each token", "none of the first");
    if (!layers.is_array() || layers.items.size() != routes.layers) {
      return not_routes(path, fmt::format("{} layers of each token", routes.layers),
                        fmt::format("{} of token {}", layers.items.size(), token));
    }
    for (std::size_t layer = 0; layer < routes.layers; ++layer) {
      auto appended = append(layers.items[layer], fmt::format("token {}, layer {}", token, layer), path, routes);
      if (appended.has_error()) return appended.error();
    }
  }
  return routes;
}

std::string routes_as_json(const Routes& routes) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("about").string("experts chosen: [token][layer that has experts], by falling weight");
  writer.key("tokens").begin_array();
  for (std::size_t token = 0; token < routes.tokens(); ++token) {
    writer.begin_array();
    for (std::size_t layer = 0; layer < routes.layers; ++layer) {
      writer.begin_array();
      for (const std::uint32_t id : routes.at(token, layer)) writer.integer(id);
      writer.end_array();
    }
    writer.end_array();
  }
  writer.end_array().end_object();
  return out + "\n";
}

}  // namespace k3::cli
