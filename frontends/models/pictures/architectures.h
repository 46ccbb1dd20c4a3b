// The model families, defined in one file each.
#pragma once
#include <memory>
#include <vector>

#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/containers.h"

namespace gemel::models {

std::unique_ptr<nn::Module> perceptron(const Options& options);
std::unique_ptr<nn::Module> lenet(const Options& options);
std::unique_ptr<nn::Module> alexnet(const Options& options);
std::unique_ptr<nn::Module> vgg16(const Options& options);
std::unique_ptr<nn::Module> vgg19(const Options& options);
std::unique_ptr<nn::Module> resnet18(const Options& options);
std::unique_ptr<nn::Module> resnet50(const Options& options);
std::unique_ptr<nn::Module> resnet152(const Options& options);
std::unique_ptr<nn::Module> mobilenet_v2(const Options& options);
std::unique_ptr<nn::Module> efficientnet_b4(const Options& options);
std::unique_ptr<nn::Module> inception_v3(const Options& options);

/// Initialises as torchvision does for ReLU networks: convolutions normal with deviation sqrt(2 / fan out), their biases 0.
void start_convolutions_by_fan_out(nn::Module& model);
/// Returns the option's rate, or else the model's own.
inline double dropout_rate(const Options& options, double own) { return options.dropout.value_or(own); }

}  // namespace gemel::models
