// The typed errors. What a user did wrong is one of the first five; InternalError is a fault of Gemel itself.
#pragma once
#include <exception>
#include <stdexcept>
#include <string>

namespace gemel {

/// Base of every error thrown by Gemel. Text: `op: what is wrong, what was given, what is accepted`.
class Error : public std::runtime_error {
 public:
  /// A NUL in the text is spelt out, or what() would end there.
  explicit Error(const std::string& text);
};

/// Shapes, element types, axes or attributes that do not fit.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A device, its driver, its compiler or its memory.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A device's memory does not suffice.
class MemoryError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// Communication between processes.
class CommError : public Error {
 public:
  using Error::Error;
};

/// A file or a data set: missing, truncated, malformed, out of range.
class DataError : public Error {
 public:
  using Error::Error;
};

/// A wrong call: an unknown option, a name that does not exist, a use that the state does not allow.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A broken invariant of Gemel's own.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// What a user is told of an exception: an Error's own text. Of what libraries throw it is worded here, as their texts are for programmers.
std::string worded(const std::exception& error);

}  // namespace gemel
