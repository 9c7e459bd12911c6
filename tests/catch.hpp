// The one include of Catch2, so that a move from 2.13 (Debian 12) to 3.x is a change in one place.
#pragma once
#include <catch2/catch.hpp>
