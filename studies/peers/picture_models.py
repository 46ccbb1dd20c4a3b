"""The models of the command line in PyTorch: torchvision's, and those that it lacks."""
import torch
import torchvision


class LeNet(torch.nn.Module):
    def __init__(self, channels, num_classes):
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(channels, 6, 5), torch.nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = torch.nn.Linear(400, 120), torch.nn.Linear(120, 84), torch.nn.Linear(84, num_classes)
        self.relu, self.pool = torch.nn.ReLU(), torch.nn.MaxPool2d(2)

    def forward(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x))).flatten(1)
        return self.fc3(self.relu(self.fc2(self.relu(self.fc1(x)))))


class Perceptron(torch.nn.Module):
    def __init__(self, channels, num_classes):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = torch.nn.Linear(256 * channels, 256), torch.nn.Linear(256, 256), torch.nn.Linear(256, num_classes)
        self.relu = torch.nn.ReLU()

    def forward(self, x):
        return self.fc3(self.relu(self.fc2(self.relu(self.fc1(x.flatten(1))))))


OWN = {"lenet": LeNet, "perceptron": Perceptron}
NAMES = ("lenet", "alexnet", "vgg16", "vgg19", "resnet18", "resnet50", "resnet152", "mobilenet_v2", "efficientnet_b4", "inception_v3")


def make(name, channels, classes):
    if name in OWN:
        return OWN[name](channels, classes)
    return getattr(torchvision.models, name)(num_classes=classes, **({"init_weights": True} if name == "inception_v3" else {}))


def set_dropout(model, rate):
    """Of every dropout and of stochastic depth."""
    for module in model.modules():
        if isinstance(module, (torch.nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = rate


def started(spec):
    """The model of a spec, with Gemel's weights."""
    import measured
    import tensors

    measured.refuse_unless("model", spec["model"], NAMES)
    model = make(spec["model"], int(spec["input"].split("x")[0]), spec["classes"])
    state = {name: torch.from_numpy(array) for name, array in tensors.load(f"{spec['start']}/weights.safetensors").items()}
    model.load_state_dict(state)
    if spec.get("dropout") is not None:
        set_dropout(model, spec["dropout"])
    return model


def loss_of(outputs, labels):
    """Cross-entropy, and 0.4 times that of Inception's auxiliary classifier."""
    cross_entropy = torch.nn.functional.cross_entropy
    return cross_entropy(outputs, labels) if torch.is_tensor(outputs) else cross_entropy(outputs[0], labels) + 0.4 * cross_entropy(outputs[1], labels)
