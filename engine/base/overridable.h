// Overridable: a value that scopes replace for their lifetimes, in whatever order these end.
#pragma once
#include <utility>

namespace gemel {

/// What is in force is what the latest of the living scopes gave, or the first value where none lives.
template <class T>
class Overridable {
 public:
  explicit Overridable(T value) : value_(std::move(value)) {}
  Overridable(const Overridable&) = delete;
  Overridable& operator=(const Overridable&) = delete;
  /// Scopes that live on have nothing to put back.
  ~Overridable() {
    for (Scope* s = top_; s; s = s->below_) s->of_ = nullptr;
  }
  const T& operator*() const { return value_; }

  class Scope {
   public:
    Scope(Overridable& of, T value) : of_(&of), before_(std::exchange(of.value_, std::move(value))), below_(std::exchange(of.top_, this)) {
      if (below_) below_->above_ = this;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    /// One that is not the latest leaves what it would have put back to the one above it.
    ~Scope() {
      if (!of_) return;
      (above_ ? above_->before_ : of_->value_) = std::move(before_);
      (above_ ? above_->below_ : of_->top_) = below_;
      if (below_) below_->above_ = above_;
    }

   private:
    friend class Overridable;
    Overridable* of_;
    T before_;
    Scope *below_, *above_ = nullptr;
  };

 private:
  T value_;
  Scope* top_ = nullptr;
};

}  // namespace gemel
