// Files of recorded expert choices: {"tokens": [token][layer][expert ids by falling weight]}, what else they say is not needed.
#pragma once

#include <string>

#include "model/error.hpp"
#include "model/routes.hpp"

namespace k3::cli {

Result<Routes> read_routes(const std::string& path);
std::string routes_as_json(const Routes& routes);

}  // namespace k3::cli
