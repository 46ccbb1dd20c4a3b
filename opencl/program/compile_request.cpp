#include "opencl/program/compile_request.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"

namespace gemel::opencl {
namespace {

using Json = nlohmann::json;

/// [alternative of Argument, number]; a float by its bits, since not all have digits.
Json argument_to(const Argument& argument) {
  const auto number = [](const auto& value) -> std::int64_t {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, Region>)
      return value.block ? std::max<std::int64_t>(value.bytes, 1) : 0;
    else if constexpr (std::is_same_v<T, float>)
      return std::bit_cast<std::int32_t>(value);
    else
      return value;
  };
  return {argument.index(), std::visit(number, argument)};
}

Argument argument_from(const Json& json) {
  const auto number = json.at(1).get<std::int64_t>();
  const auto narrowed = static_cast<std::int32_t>(number);
  switch (json.at(0).get<int>()) {
    case 0:
      return Region{nullptr, 0, number};
    case 1:
      return narrowed;
    case 2:
      return number;
    default:
      return std::bit_cast<float>(narrowed);
  }
}

/// All of the bytes, or false.
template <class Move>
bool move_all(char* at, std::size_t bytes, const Move& move) {
  while (bytes > 0) {
    const ssize_t moved = move(at, bytes);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    at += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

}  // namespace

std::string to_text(const CompileRequest& r) {
  Json arguments = Json::array();
  for (const Argument& argument : r.arguments) arguments.push_back(argument_to(argument));
  const Json json{{"title", r.program.title},
                  {"source", r.program.source},
                  {"options", r.program.options},
                  {"declares_builtins", r.program.declares_builtins},
                  {"kernel", r.kernel},
                  {"global", r.range.global},
                  {"local", r.range.local},
                  {"dimensions", r.range.dimensions},
                  {"arguments", std::move(arguments)},
                  {"takes_offsets", r.takes_offsets}};
  return json.dump();
}

CompileRequest request_from(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    CompileRequest r{{json.at("title"), json.at("source"), json.at("options"), json.at("declares_builtins")}, json.at("kernel")};
    json.at("global").get_to(r.range.global);
    json.at("local").get_to(r.range.local);
    json.at("dimensions").get_to(r.range.dimensions);
    for (const Json& argument : json.at("arguments")) r.arguments.push_back(argument_from(argument));
    r.takes_offsets = json.at("takes_offsets");
    return r;
  } catch (const Json::exception& e) {
    throw InternalError(fmt::format("compile request: {}", e.what()));
  }
}

bool send_message(int socket, std::string_view text) {
  std::string message(sizeof(std::uint64_t), '\0');
  const std::uint64_t bytes = text.size();
  std::memcpy(message.data(), &bytes, sizeof bytes);
  message += text;
  return move_all(message.data(), message.size(), [&](char* from, std::size_t n) { return ::send(socket, from, n, MSG_NOSIGNAL); });
}

bool receive_message(int socket, std::string& text) {
  const auto receive = [&](char* to, std::size_t n) { return ::recv(socket, to, n, 0); };
  std::uint64_t bytes = 0;
  if (!move_all(reinterpret_cast<char*>(&bytes), sizeof bytes, receive)) return false;
  text.resize(bytes);
  return move_all(text.data(), text.size(), receive);
}

}  // namespace gemel::opencl
