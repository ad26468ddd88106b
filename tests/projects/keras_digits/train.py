"""Digits in the style of Keras's guides."""
import keras
import numpy as np

x, y = np.random.rand(640, 28, 28), np.random.randint(0, 10, 640)
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
callbacks = [
    keras.callbacks.BackupAndRestore(backup_dir="backup"),
    keras.callbacks.ModelCheckpoint("weights/best.keras", save_best_only=True),
    keras.callbacks.CSVLogger("history.csv", append=True),
]
model.fit(x, y, epochs=50, validation_split=0.1, callbacks=callbacks)
model.save("digits.keras")
