"""PPO on CartPole in the style of stable-baselines3."""
import os

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback

if os.path.exists("models/ppo_cartpole.zip"):
    model = PPO.load("models/ppo_cartpole.zip")
else:
    model = PPO("MlpPolicy", "CartPole-v1", verbose=1)
callback = CheckpointCallback(save_freq=1000, save_path="./logs/", name_prefix="rl_model")
for _ in range(20):
    model.learn(total_timesteps=5000, callback=callback, reset_num_timesteps=False)
    model.save("models/ppo_cartpole")
