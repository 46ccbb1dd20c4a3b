// A project of its own that uses Gemel as installed.
#include <iostream>

#include "engine/base/shape.h"

int main() { std::cout << gemel::to_string(gemel::Shape{2, 3}) << '\n'; }
