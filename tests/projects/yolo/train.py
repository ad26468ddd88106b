from ultralytics import YOLO

model = YOLO("yolo11n-seg.pt")
model.train(data="coco8-seg.yaml", epochs=20, imgsz=64)
